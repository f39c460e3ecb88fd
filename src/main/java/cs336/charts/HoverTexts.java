package cs336.charts;

import com.google.gson.Gson;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.geom.AffineTransform;
import java.awt.geom.Rectangle2D;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * The texts that a browser shows when the pointer is on a mark of a figure, such as a point, a bar or the interval of a
 * kernel. Panels add the texts while they are painted.
 */
public final class HoverTexts {
    /** The hint under which a panel finds these texts in its graphics. */
    private static final RenderingHints.Key KEY = new RenderingHints.Key(0) {
        @Override
        public boolean isCompatibleValue(Object value) {
            return value instanceof HoverTexts;
        }
    };

    private static final Gson GSON = new Gson();
    private static final String SCRIPT = TextResource.read(HoverTexts.class, "figure.js");

    private final double width;
    private final double height;
    private final List<HoverText> texts = new ArrayList<>();

    /**
     * A text and its place in fractions of the figure's width and height. The place of a point has no extent.
     *
     * @param x left end
     * @param y upper end
     */
    public record HoverText(double x, double y, double width, double height, String text) {}

    /**
     * Creates an empty list of texts.
     *
     * @param width width of the figure in drawing units
     * @param height height of the figure in drawing units
     */
    HoverTexts(double width, double height) {
        this.width = width;
        this.height = height;
    }

    /** Makes the panels that are painted with these graphics add their texts. */
    void collectFrom(Graphics2D g) {
        g.setRenderingHint(KEY, this);
    }

    /**
     * Adds a text, if texts are collected. Later texts are in front of earlier ones.
     *
     * @param place the place in the coordinates of the graphics, which may be translated and scaled
     * @param text supplier of the text, whose lines are separated by newlines
     */
    public static void add(Graphics2D g, Rectangle2D place, Supplier<String> text) {
        if (g.getRenderingHint(KEY) instanceof HoverTexts texts) {
            AffineTransform transform = g.getTransform();
            texts.texts.add(new HoverText(
                    (place.getX() * transform.getScaleX() + transform.getTranslateX()) / texts.width,
                    (place.getY() * transform.getScaleY() + transform.getTranslateY()) / texts.height,
                    place.getWidth() * transform.getScaleX() / texts.width,
                    place.getHeight() * transform.getScaleY() / texts.height,
                    text.get()));
        }
    }

    /** Adds the text of a point, if texts are collected. */
    static void addPoint(Graphics2D g, double x, double y, Supplier<String> text) {
        add(g, new Rectangle2D.Double(x, y, 0, 0), text);
    }

    /** Returns the texts, from back to front. */
    public List<HoverText> texts() {
        return List.copyOf(texts);
    }

    /** Returns the texts and the script that shows them and zooms, for an element of class {@code cs336-live}. */
    public String scripts() {
        // Ten-thousandths of the figure; Gson escapes "<", so that no text ends the script.
        List<List<Object>> marks = texts.stream()
                .map(text -> List.<Object>of(
                        Math.round(text.x * 1e4),
                        Math.round(text.y * 1e4),
                        Math.round(text.width * 1e4),
                        Math.round(text.height * 1e4),
                        text.text))
                .toList();
        String data = GSON.toJson(marks);
        return "<script type=\"application/json\">" + data + "</script>\n<script>\n" + SCRIPT + "</script>\n";
    }
}
