package cs336.charts;

import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.geom.Line2D;
import java.awt.geom.Rectangle2D;
import java.util.List;
import java.util.function.IntConsumer;

/**
 * The text around a plot: legend and title above it, tick labels and axis title below it. XChart aligns text by its
 * bounding box, so a label with a "g" is higher than one without. This class aligns all labels of a row to one
 * baseline, also across panels side by side.
 *
 * @param title title above the plot; empty for none
 * @param titled true to reserve space for a title
 * @param legend legend above the title
 * @param legendShown false to reserve space for the legend without drawing it
 * @param xTitle title of the horizontal axis
 */
public record Frame(String title, boolean titled, Legend legend, boolean legendShown, String xTitle) {
    private static final int TITLE_HEIGHT = 22 * ChartStyle.UNITS;
    private static final int TICK_LENGTH = 4 * ChartStyle.UNITS;
    private static final int TICK_BASELINE = 17 * ChartStyle.UNITS;
    private static final int X_TITLE_BASELINE = 36 * ChartStyle.UNITS;
    private static final int BOTTOM = 42 * ChartStyle.UNITS;

    /**
     * A tick of the horizontal axis.
     *
     * @param x position in drawing units
     * @param label text below the tick
     */
    public record Tick(double x, String label) {}

    /** Returns the height of the space above the plot, in drawing units. */
    public int top() {
        return legend.height() + (titled ? TITLE_HEIGHT : 0);
    }

    /** Returns the height of the space below the plot, in drawing units. */
    public int bottom() {
        return BOTTOM;
    }

    /**
     * Paints a panel on a white background. While the content is painted, the origin lies below the space for legend
     * and title.
     *
     * @param content paints XChart's plot, this frame and further marks; receives the height that is left for the plot
     */
    void paintPanel(Graphics2D g, int width, int height, IntConsumer content) {
        g.setColor(Color.WHITE);
        g.fillRect(0, 0, width, height);
        g.translate(0, top());
        content.accept(height - top() - bottom());
        g.translate(0, -top());
    }

    /** Paints the axis line, the ticks and the text around a plot with the given bounds. */
    public void paint(Graphics2D g, Rectangle2D plot, List<Tick> ticks) {
        Font small = ChartStyle.smallFont();
        double floor = plot.getMaxY();
        g.setColor(ChartStyle.FAINT_INK);
        g.setStroke(ChartStyle.hairline(0.75));
        g.draw(new Line2D.Double(plot.getX(), floor, plot.getMaxX(), floor));
        for (Tick tick : ticks) {
            g.setColor(ChartStyle.FAINT_INK);
            g.draw(new Line2D.Double(tick.x(), floor, tick.x(), floor + TICK_LENGTH));
        }
        for (Tick tick : ticks) {
            drawCentred(g, tick.label(), small, tick.x(), floor + TICK_BASELINE);
        }
        drawCentred(g, xTitle, ChartStyle.textFont(), plot.getCenterX(), floor + X_TITLE_BASELINE);
        double above = plot.getY() - 10 * ChartStyle.UNITS;
        if (!title.isEmpty()) {
            drawCentred(g, title, ChartStyle.titleFont(), plot.getCenterX(), above);
        }
        if (legendShown) {
            legend.paint(g, plot.getX(), above - (titled ? TITLE_HEIGHT : 0));
        }
    }

    private static void drawCentred(Graphics2D g, String text, Font font, double x, double baseline) {
        ChartStyle.drawText(g, text, font, ChartStyle.INK, x - ChartStyle.width(text, font) / 2, baseline, 0);
    }
}
