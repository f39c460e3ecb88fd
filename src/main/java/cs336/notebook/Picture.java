package cs336.notebook;

import cs336.charts.Figure;
import cs336.charts.Svg;
import io.github.spencerpark.jupyter.kernel.display.RenderContext;
import io.github.spencerpark.jupyter.kernel.display.mime.MIMEType;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.image.BufferedImage;
import java.awt.image.RenderedImage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Locale;
import java.util.Map;
import java.util.function.DoubleFunction;
import java.util.function.Supplier;
import javax.imageio.ImageIO;
import org.jfree.svg.SVGGraphics2D;
import org.knowm.xchart.internal.chartpart.Chart;

/**
 * A picture for a notebook: HTML with an image that is never wider than the cell, and PNG for clients that show no
 * HTML. JupyterLab shows a bare SVG document in its full width, cuts off the part that exceeds the cell, and shows none
 * in untrusted notebooks.
 *
 * @param description the text alternative
 * @param svg supplier of the SVG document; null if there is none
 * @param png supplier of the content of the PNG file
 * @param live supplier of the scripts that show values at the pointer and zoom; null if there are none
 * @param density the number of PNG pixels per CSS pixel
 */
record Picture(String description, Supplier<String> svg, Supplier<byte[]> png, Supplier<String> live, int density) {
    private static final int SHARP = 2;
    private static final int WIDTH_IN_PNG = 16;
    private static final int HEIGHT_IN_PNG = 20;

    /** Inverts lightness, but not hues, in JupyterLab's dark themes. */
    static final String STYLE = "<style>[data-jp-theme-light=\"false\"] .cs336-figure"
            + " { filter: invert(0.92) hue-rotate(180deg); }</style>";

    private static final String KEY = "key-of-this-chart";

    /** Returns a picture of a figure of this project. */
    static Picture of(Figure figure) {
        return new Picture(
                figure.description(),
                figure::svg,
                () -> figure.png(SHARP),
                () -> figure.hoverTexts().scripts(),
                SHARP);
    }

    /** Returns a picture of a chart as XChart draws it. */
    static Picture of(Chart<?, ?> chart) {
        String title = chart.getTitle() == null ? "" : chart.getTitle();
        return new Picture(
                title.isBlank() ? "chart" : "chart \"" + title + "\"", () -> svg(chart), () -> png(chart), null, SHARP);
    }

    /** Returns a picture of a raster image, without SVG. */
    static Picture of(RenderedImage image) {
        return new Picture("image, " + image.getWidth() + " × " + image.getHeight(), null, () -> png(image), null, 1);
    }

    void renderTo(RenderContext to) {
        renderTo(to, () -> STYLE + html());
    }

    /** @param html supplier of the HTML, which replaces that of this picture */
    void renderTo(RenderContext to, Supplier<String> html) {
        to.getOutputContainer().putText(description);
        if (svg != null) {
            to.renderIfRequested(MIMEType.IMAGE_SVG, svg::get);
            to.renderIfRequested(MIMEType.TEXT_HTML, html::get);
        }
        to.renderIfRequested(MIMEType.IMAGE_PNG, (type, data) -> {
            byte[] content = png.get();
            ByteBuffer header = ByteBuffer.wrap(content);
            Map<String, Integer> size = Map.of(
                    "width", header.getInt(WIDTH_IN_PNG) / density, "height", header.getInt(HEIGHT_IN_PNG) / density);
            data.putData(type, Base64.getEncoder().encodeToString(content), size);
        });
    }

    private String html() {
        String image = image(description, svg.get());
        return live == null
                ? image
                : "<div class=\"cs336-live\" style=\"position: relative; display: inline-block; max-width: 100%\">"
                        + image + live.get() + "</div>";
    }

    /** Returns an HTML image that shrinks with the page. */
    static String image(String description, String svg) {
        return "<img class=\"cs336-figure\" alt=\"" + Svg.escape(description)
                + "\" style=\"max-width: 100%; height: auto\""
                + " src=\"data:image/svg+xml;base64,"
                + Base64.getEncoder().encodeToString(svg.getBytes(StandardCharsets.UTF_8)) + "\">";
    }

    private static String svg(Chart<?, ?> chart) {
        var graphics = new SVGGraphics2D(chart.getWidth(), chart.getHeight());
        graphics.setDefsKeyPrefix(KEY);
        // A hundredth of a pixel is precise enough.
        DoubleFunction<String> twoDecimals =
                x -> String.format(Locale.ROOT, "%.2f", x).replaceAll("\\.?0+$", "");
        graphics.setGeomDoubleConverter(twoDecimals);
        graphics.setTransformDoubleConverter(twoDecimals);
        chart.paint(graphics, chart.getWidth(), chart.getHeight());
        String svg = graphics.getSVGElement();
        // Ids depend only on the content: reproducible, and different charts on one page do not clash.
        return svg.replace(KEY, "chart-" + Integer.toHexString(svg.hashCode()) + "-");
    }

    private static byte[] png(Chart<?, ?> chart) {
        BufferedImage image =
                new BufferedImage(chart.getWidth() * SHARP, chart.getHeight() * SHARP, BufferedImage.TYPE_INT_RGB);
        Graphics2D graphics = image.createGraphics();
        graphics.setRenderingHint(RenderingHints.KEY_ANTIALIASING, RenderingHints.VALUE_ANTIALIAS_ON);
        graphics.setRenderingHint(RenderingHints.KEY_TEXT_ANTIALIASING, RenderingHints.VALUE_TEXT_ANTIALIAS_ON);
        graphics.scale(SHARP, SHARP);
        chart.paint(graphics, chart.getWidth(), chart.getHeight());
        graphics.dispose();
        return png(image);
    }

    private static byte[] png(RenderedImage image) {
        var png = new ByteArrayOutputStream();
        try {
            ImageIO.write(image, "png", png);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return png.toByteArray();
    }
}
