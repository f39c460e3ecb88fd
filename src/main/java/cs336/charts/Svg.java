package cs336.charts;

import java.util.LinkedHashMap;
import java.util.regex.Pattern;
import org.jfree.svg.SVGGraphics2D;

/** SVG documents from what was drawn. */
public final class Svg {
    private static final Pattern PATH = Pattern.compile("<path d='([^']{100,})'/>");

    private Svg() {}

    /** What was drawn, as a document shown at the given size in pixels, with a title for those who cannot see it. */
    static String document(SVGGraphics2D g, double width, double height, String title) {
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\""
                + Figure.twoDecimals(width) + "\" height=\""
                + Figure.twoDecimals(height) + "\" viewBox=\"0 0 " + Figure.twoDecimals(g.getWidth()) + " "
                + Figure.twoDecimals(g.getHeight()) + "\" role=\"img\">\n<title>" + escape(title) + "</title>\n"
                + shared(body(g), g.getDefsKeyPrefix()) + "</svg>\n";
    }

    /** The drawn elements alone. */
    public static String body(SVGGraphics2D g) {
        String element = g.getSVGElement();
        return element.substring(element.indexOf('>') + 1, element.lastIndexOf("</svg>"))
                .replace(";stroke-opacity:1.0", "");
    }

    /** The same words are drawn on many axes: an outline that occurs again is written once and referred to. */
    private static String shared(String body, String idPrefix) {
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
        String used = PATH.matcher(body).replaceAll(path -> {
            String id = ids.get(path.group(1));
            return id == null ? path.group() : "<use xlink:href='#" + id + "'/>";
        });
        return "<defs>" + definitions + "</defs>\n" + used;
    }

    public static String escape(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("\"", "&quot;");
    }
}
