package cs336.notebook;

import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.image.BufferedImage;
import java.awt.image.RenderedImage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Base64;
import java.util.Locale;
import java.util.function.DoubleFunction;
import javax.imageio.ImageIO;
import org.jfree.svg.SVGGraphics2D;
import org.knowm.xchart.internal.chartpart.Chart;

/** A chart drawn for a notebook; width and height in CSS pixels. */
record ChartImage(Chart<?, ?> chart) {
    /** Pixels of the PNG to a CSS pixel, so that it is sharp on dense screens. */
    private static final int DENSITY = 2;

    private static final String KEY = "key-of-this-chart";

    int width() {
        return chart.getWidth();
    }

    int height() {
        return chart.getHeight();
    }

    String svg() {
        SVGGraphics2D graphics = new SVGGraphics2D(width(), height());
        graphics.setDefsKeyPrefix(KEY);
        // A hundredth of a pixel is precise enough.
        DoubleFunction<String> twoDecimals =
                x -> String.format(Locale.ROOT, "%.2f", x).replaceAll("\\.?0+$", "");
        graphics.setGeomDoubleConverter(twoDecimals);
        graphics.setTransformDoubleConverter(twoDecimals);
        chart.paint(graphics, width(), height());
        String svg = graphics.getSVGElement();
        // The same chart gives the same text, and two charts on one page share no name.
        return svg.replace(KEY, "chart-" + Integer.toHexString(svg.hashCode()) + "-");
    }

    /** PNG in base64. */
    String png() {
        BufferedImage image = new BufferedImage(width() * DENSITY, height() * DENSITY, BufferedImage.TYPE_INT_RGB);
        Graphics2D graphics = image.createGraphics();
        graphics.setRenderingHint(RenderingHints.KEY_ANTIALIASING, RenderingHints.VALUE_ANTIALIAS_ON);
        graphics.setRenderingHint(RenderingHints.KEY_TEXT_ANTIALIASING, RenderingHints.VALUE_TEXT_ANTIALIAS_ON);
        graphics.scale(DENSITY, DENSITY);
        chart.paint(graphics, width(), height());
        graphics.dispose();
        return base64Png(image);
    }

    static String base64Png(RenderedImage image) {
        ByteArrayOutputStream png = new ByteArrayOutputStream();
        try {
            ImageIO.write(image, "png", png);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return Base64.getEncoder().encodeToString(png.toByteArray());
    }

    @Override
    public String toString() {
        String title = chart.getTitle();
        return "chart" + (title == null || title.isBlank() ? "" : " \"" + title + "\"") + ", " + width() + " × "
                + height();
    }
}
