package cs336.charts;

import com.google.gson.Gson;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.geom.AffineTransform;
import java.awt.geom.Rectangle2D;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.function.Supplier;
import org.knowm.xchart.internal.chartpart.AxesChart;
import org.knowm.xchart.style.AxesChartStyler;

/**
 * The texts that a browser shows when the pointer is on a mark of a figure, such as a point, a bar or the interval of a
 * kernel. They include the axes that the browser labels while the figure is zoomed. Panels add both while they are
 * painted.
 */
public final class HoverTexts {
    /** The rendering hint that holds these texts while the panels are painted. */
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
    private final String source;
    private final List<HoverText> texts = new ArrayList<>();
    private final List<PlotAxes> axes = new ArrayList<>();

    /**
     * A text and its place in fractions of the figure's width and height. The place of a point has no extent.
     *
     * @param x left end
     * @param y upper end
     */
    public record HoverText(double x, double y, double width, double height, String text) {}

    /**
     * The place of a plot in fractions of the figure's width and height, and its axes. An axis is null if its values
     * are not numbers.
     */
    private record PlotAxes(Rectangle2D place, AxisRange horizontal, AxisRange vertical) {
        List<Object> json() {
            return List.of(
                    scaled(place.getX()),
                    scaled(place.getY()),
                    scaled(place.getWidth()),
                    scaled(place.getHeight()),
                    json(horizontal),
                    json(vertical));
        }

        private static List<Object> json(AxisRange range) {
            return range == null ? List.of() : List.of(range.min(), range.max(), range.log());
        }
    }

    /**
     * Creates an empty list of texts.
     *
     * @param width width of the figure in drawing units
     * @param height height of the figure in drawing units
     * @param origin machines and commits with which each text ends; empty for none
     */
    HoverTexts(double width, double height, String origin) {
        this.width = width;
        this.height = height;
        source = origin.isEmpty() ? "" : "\nsource: " + origin;
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
            Rectangle2D at = texts.fractions(g, place);
            texts.texts.add(new HoverText(at.getX(), at.getY(), at.getWidth(), at.getHeight(), text.get()));
        }
    }

    /** Returns a place in the coordinates of the graphics in fractions of the figure's width and height. */
    private Rectangle2D fractions(Graphics2D g, Rectangle2D place) {
        AffineTransform transform = g.getTransform();
        return new Rectangle2D.Double(
                (place.getX() * transform.getScaleX() + transform.getTranslateX()) / width,
                (place.getY() * transform.getScaleY() + transform.getTranslateY()) / height,
                place.getWidth() * transform.getScaleX() / width,
                place.getHeight() * transform.getScaleY() / height);
    }

    /** Adds the text of a point, if texts are collected. */
    static void addPoint(Graphics2D g, double x, double y, Supplier<String> text) {
        add(g, new Rectangle2D.Double(x, y, 0, 0), text);
    }

    /**
     * Adds the axes of a plot, if texts are collected.
     *
     * @param horizontal spacing of the horizontal axis; null if its values are not numbers
     * @param vertical whether the values of the vertical axis are numbers
     */
    public static void addAxes(
            Graphics2D g, AxesChart<?, ?> chart, Rectangle2D plot, Spacing horizontal, boolean vertical) {
        if (g.getRenderingHint(KEY) instanceof HoverTexts texts) {
            AxesChartStyler styler = chart.getStyler();
            texts.axes.add(new PlotAxes(
                    texts.fractions(g, plot),
                    horizontal == null
                            ? null
                            : new AxisRange(
                                    horizontal.fromAxis(styler.getXAxisMin()),
                                    horizontal.fromAxis(styler.getXAxisMax()),
                                    horizontal != Spacing.LINEAR),
                    vertical
                            ? new AxisRange(styler.getYAxisMin(), styler.getYAxisMax(), styler.isYAxisLogarithmic())
                            : null));
        }
    }

    /** Returns the texts, from back to front. */
    public List<HoverText> texts() {
        return texts.stream()
                .map(text -> new HoverText(text.x, text.y, text.width, text.height, text.text + source))
                .toList();
    }

    /** Returns the texts and the script that shows them and zooms, for an element of class {@code cs336-live}. */
    public String scripts() {
        List<List<Object>> marks = texts.stream()
                .map(text -> List.<Object>of(
                        scaled(text.x), scaled(text.y), scaled(text.width), scaled(text.height), text.text))
                .toList();
        var data = new LinkedHashMap<String, Object>(); // always in the same order
        data.put("marks", marks);
        data.put("axes", axes.stream().map(PlotAxes::json).toList());
        data.put("source", source);
        // Gson escapes "<", so that no text ends the script.
        return "<script type=\"application/json\">" + GSON.toJson(data) + "</script>\n<script>\n" + SCRIPT
                + "</script>\n";
    }

    /** Returns a fraction of the figure in ten-thousandths. */
    private static long scaled(double fraction) {
        return Math.round(fraction * 1e4);
    }
}
