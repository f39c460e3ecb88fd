package cs336.charts;

import java.util.LinkedHashMap;
import java.util.regex.Pattern;
import org.jfree.svg.SVGGraphics2D;

/** SVG documents and elements from drawings. */
public final class Svg {
    private static final Pattern PATH = Pattern.compile("<path d='([^']{100,})'/>");

    private Svg() {}

    /**
     * Returns a drawing as an SVG document.
     *
     * @param width width in pixels
     * @param height height in pixels
     * @param title alternative text for readers who cannot see the drawing
     */
    static String document(SVGGraphics2D g, double width, double height, String title) {
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\""
                + Figure.twoDecimals(width) + "\" height=\""
                + Figure.twoDecimals(height) + "\" viewBox=\"0 0 " + Figure.twoDecimals(g.getWidth()) + " "
                + Figure.twoDecimals(g.getHeight()) + "\" role=\"img\">\n<title>" + escape(title) + "</title>\n"
                + deduplicated(body(g), g.getDefsKeyPrefix()) + "</svg>\n";
    }

    /** Returns the drawn elements without the enclosing {@code <svg>} element. */
    public static String body(SVGGraphics2D g) {
        String element = g.getSVGElement();
        return element.substring(element.indexOf('>') + 1, element.lastIndexOf("</svg>"))
                .replace(";stroke-opacity:1.0", "");
    }

    /**
     * Returns the elements with repeated outlines replaced by references to one definition. The same text is often
     * drawn on several axes.
     */
    private static String deduplicated(String body, String idPrefix) {
        var counts = new LinkedHashMap<String, Integer>();
        PATH.matcher(body).results().forEach(path -> counts.merge(path.group(1), 1, Integer::sum));
        var ids = new LinkedHashMap<String, String>();
        var definitions = new StringBuilder();
        counts.forEach((outline, count) -> {
            if (count > 1) {
                String id = idPrefix + "path-" + ids.size();
                ids.put(outline, id);
                definitions.append("<path id='" + id + "' d='" + outline + "'/>");
            }
        });
        if (ids.isEmpty()) {
            return body;
        }
        String withReferences = PATH.matcher(body).replaceAll(path -> {
            String id = ids.get(path.group(1));
            return id == null ? path.group() : "<use xlink:href='#" + id + "'/>";
        });
        return "<defs>" + definitions + "</defs>\n" + withReferences;
    }

    /** Escapes a text for XML content and attributes. */
    public static String escape(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("\"", "&quot;");
    }
}
