package cs336.charts;

import java.awt.Color;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.image.BufferedImage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import javax.imageio.ImageIO;
import org.jfree.svg.SVGGraphics2D;
import org.jfree.svg.SVGHints;
import org.knowm.xchart.internal.chartpart.Chart;

/**
 * A named figure of one chart or of several side by side, with reproducible output: text is drawn as outlines of the
 * bundled font, coordinates have two decimals, and nothing depends on the machine, the locale or the time.
 *
 * <p>{@link #chart()} gives access to the XChart object for settings that {@link Plot} does not offer. XChart's sizes
 * are in drawing units of half a pixel.
 */
public final class Figure {
    private final String name;
    private final String description;
    private final int width;
    private final int height;
    private final List<Chart<?, ?>> panels;
    private final String origin;

    /**
     * Creates a figure of the given panels, left to right.
     *
     * @param name file name without extension: lower-case letters, digits and single hyphens
     * @param description alternative text for readers who cannot see the figure
     * @param width width of the whole figure in pixels, 100 to 4000
     * @param height height of the whole figure in pixels, 100 to 4000
     * @param panels XChart charts, at least one
     * @throws IllegalArgumentException if an argument is outside these limits or the description is blank
     */
    public Figure(String name, String description, int width, int height, List<? extends Chart<?, ?>> panels) {
        this(name, description, width, height, panels, "");
    }

    private Figure(
            String name, String description, int width, int height, List<? extends Chart<?, ?>> panels, String origin) {
        if (!name.matches("[a-z0-9]+(-[a-z0-9]+)*")) {
            throw new IllegalArgumentException(
                    "name \"" + name + "\" must consist of lower-case letters, digits and single hyphens");
        }
        if (description.isBlank()) {
            throw new IllegalArgumentException(
                    "description must not be blank; it is the alternative text of the figure");
        }
        if (width < 100 || height < 100 || width > 4000 || height > 4000) {
            throw new IllegalArgumentException(
                    "size " + width + " × " + height + ": width and height must be 100 to 4000 pixels");
        }
        if (panels.isEmpty()) {
            throw new IllegalArgumentException("panels must contain at least one chart");
        }
        this.name = name;
        this.description = description;
        this.width = width;
        this.height = height;
        this.panels = List.copyOf(panels);
        this.origin = origin;
    }

    /** Returns a figure of one XChart chart, whose width and height are in drawing units of half a pixel. */
    public static Figure of(String name, String description, Chart<?, ?> chart) {
        return new Figure(
                name,
                description,
                chart.getWidth() / ChartStyle.UNITS,
                chart.getHeight() / ChartStyle.UNITS,
                List.of(chart));
    }

    /**
     * Returns this figure with the machines and commits of the measurements from which it was drawn, one line for each
     * machine. Hover texts end with them.
     */
    public Figure withOrigin(String machinesAndCommits) {
        return new Figure(name, description, width, height, panels, machinesAndCommits);
    }

    /** Returns the file name without extension. */
    public String name() {
        return name;
    }

    /** Returns the alternative text. */
    public String description() {
        return description;
    }

    /** Returns the first chart. */
    public Chart<?, ?> chart() {
        return panels.get(0);
    }

    /** Returns all charts, left to right. */
    public List<Chart<?, ?>> panels() {
        return panels;
    }

    /** Returns the figure as a self-contained SVG document. */
    public String svg() {
        var g = new SVGGraphics2D(width * ChartStyle.UNITS, height * ChartStyle.UNITS);
        g.setDefsKeyPrefix(name + "-");
        g.setGeomDoubleConverter(Figure::twoDecimals);
        g.setTransformDoubleConverter(Figure::twoDecimals);
        g.setRenderingHint(SVGHints.KEY_DRAW_STRING_TYPE, SVGHints.VALUE_DRAW_STRING_TYPE_VECTOR);
        paint(g);
        return Svg.document(g, width, height, description);
    }

    /**
     * Returns the figure as the content of a PNG file.
     *
     * @param scale device pixels per pixel, at most 8; 2 for a high-density screen
     * @throws IllegalArgumentException if the scale is not in this range
     */
    public byte[] png(double scale) {
        if (!(scale > 0 && scale <= 8)) {
            throw new IllegalArgumentException("scale " + scale + " must be above 0 and at most 8");
        }
        var image = new BufferedImage(
                (int) Math.round(width * scale), (int) Math.round(height * scale), BufferedImage.TYPE_INT_RGB);
        Graphics2D g = image.createGraphics();
        try {
            g.setRenderingHint(RenderingHints.KEY_ANTIALIASING, RenderingHints.VALUE_ANTIALIAS_ON);
            g.setRenderingHint(RenderingHints.KEY_STROKE_CONTROL, RenderingHints.VALUE_STROKE_PURE);
            g.scale(scale / ChartStyle.UNITS, scale / ChartStyle.UNITS);
            paint(g);
        } finally {
            g.dispose();
        }
        try {
            var out = new ByteArrayOutputStream();
            ImageIO.write(image, "png", out);
            return out.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the texts that a browser shows at the marks of the figure. */
    public HoverTexts hoverTexts() {
        var texts = new HoverTexts(width * ChartStyle.UNITS, height * ChartStyle.UNITS, origin);
        Graphics2D g = new BufferedImage(1, 1, BufferedImage.TYPE_INT_RGB).createGraphics();
        try {
            texts.collectFrom(g);
            paint(g);
        } finally {
            g.dispose();
        }
        return texts;
    }

    /**
     * Writes {@code <name>.svg} into a folder, which is created if missing, and returns its path. A file of this name
     * is replaced when the new one is complete.
     *
     * @throws UncheckedIOException if the file cannot be written
     */
    public Path save(Path folder) {
        try {
            Files.createDirectories(folder);
            return ReplacedFile.write(folder.resolve(name + ".svg"), svg().getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Paints the panels from right to left, so that the legend of the first panel may extend over the others. */
    private void paint(Graphics2D g) {
        Typeface.prepare();
        g.setColor(Color.WHITE);
        g.fillRect(0, 0, width * ChartStyle.UNITS, height * ChartStyle.UNITS);
        double plotsWidth = width * ChartStyle.UNITS;
        for (Chart<?, ?> panel : panels) {
            plotsWidth -= margin(panel);
        }
        double right = width * ChartStyle.UNITS;
        for (int i = panels.size() - 1; i >= 0; i--) {
            Chart<?, ?> panel = panels.get(i);
            int panelWidth = (int) (plotsWidth / panels.size() + margin(panel));
            right -= panelWidth;
            int left = i == 0 ? 0 : (int) right;
            g.translate(left, 0);
            panel.paint(g, panelWidth, height * ChartStyle.UNITS);
            g.translate(-left, 0);
        }
    }

    /** Returns the extra width of a panel for labels, such that the plots of all panels have the same width. */
    private static double margin(Chart<?, ?> panel) {
        return panel instanceof LinePanel line ? line.labelWidth() : 0;
    }

    /** Formats a coordinate with at most two decimals. */
    public static String twoDecimals(double value) {
        String text = BigDecimal.valueOf(value)
                .setScale(2, RoundingMode.HALF_EVEN)
                .stripTrailingZeros()
                .toPlainString();
        return text.equals("-0") ? "0" : text;
    }
}
