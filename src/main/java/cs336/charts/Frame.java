package cs336.charts;

import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.geom.Line2D;
import java.awt.geom.Rectangle2D;
import java.util.List;

/**
 * The words around a plot: legend and title above it, ticks and the axis's title below it. XChart places words by the
 * box of their letters, so that a "g" lifts its whole label; here each row has one baseline, and panels side by side
 * align.
 *
 * @param title above the plot; empty for none
 * @param titled whether room is kept for a title
 * @param legend over it all
 * @param legendShown whether the legend is drawn, or room is only kept for it
 * @param xTitle below the ticks
 */
public record Frame(String title, boolean titled, Legend legend, boolean legendShown, String xTitle) {
    private static final int TITLE_HEIGHT = 22 * ChartStyle.UNITS;
    private static final int TICK_LENGTH = 4 * ChartStyle.UNITS;
    private static final int TICK_BASELINE = 17 * ChartStyle.UNITS;
    private static final int X_TITLE_BASELINE = 36 * ChartStyle.UNITS;
    private static final int BOTTOM = 42 * ChartStyle.UNITS;

    /** A tick of the horizontal axis: where it is on the drawing, and what is written there. */
    public record Tick(double x, String label) {}

    /** Room above the plot, in drawing units. */
    public int top() {
        return legend.height() + (titled ? TITLE_HEIGHT : 0);
    }

    /** Room below the plot, in drawing units. */
    public int bottom() {
        return BOTTOM;
    }

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
            centred(g, tick.label(), small, tick.x(), floor + TICK_BASELINE);
        }
        centred(g, xTitle, ChartStyle.textFont(), plot.getCenterX(), floor + X_TITLE_BASELINE);
        double above = plot.getY() - 10 * ChartStyle.UNITS;
        if (!title.isEmpty()) {
            centred(g, title, ChartStyle.titleFont(), plot.getCenterX(), above);
        }
        if (legendShown) {
            legend.paint(g, plot.getX(), above - (titled ? TITLE_HEIGHT : 0));
        }
    }

    private static void centred(Graphics2D g, String text, Font font, double x, double baseline) {
        ChartStyle.drawText(g, text, font, ChartStyle.INK, x - ChartStyle.width(text, font) / 2, baseline, 0);
    }
}
