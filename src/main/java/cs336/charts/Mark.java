package cs336.charts;

import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Graphics2D;
import java.awt.geom.Line2D;
import java.awt.geom.Rectangle2D;
import java.util.List;
import org.knowm.xchart.internal.chartpart.AxesChart;

/** Error bars and reference lines, which panels draw on top of XChart's plot. */
public final class Mark {
    private Mark() {}

    /**
     * A value with an error bar, in data units.
     *
     * @param value centre of the error bar
     * @param error half the length of the error bar; NaN or 0 for none
     * @param text the hover text; null for none
     */
    record MeasuredValue(double value, double error, String text) {
        double low() {
            return error > 0 ? value - error : value;
        }

        double high() {
            return error > 0 ? value + error : value;
        }
    }

    /** A labelled horizontal line, such as a limit or a baseline. */
    public record ReferenceLine(double value, String label) {}

    /** Draws an error bar with caps, clipped to the range of the axis; x is in drawing units. */
    static void drawErrorBar(
            Graphics2D g, AxesChart<?, ?> chart, AxisRange range, Color color, double x, MeasuredValue value) {
        double low = chart.getScreenYFromChart(Math.max(value.low(), range.min()));
        double high = chart.getScreenYFromChart(Math.min(value.high(), range.max()));
        double cap = 2.5 * ChartStyle.UNITS;
        g.setColor(color);
        g.setStroke(ChartStyle.hairline(1));
        g.draw(new Line2D.Double(x, low, x, high));
        g.draw(new Line2D.Double(x - cap, low, x + cap, low));
        g.draw(new Line2D.Double(x - cap, high, x + cap, high));
    }

    /** Draws reference lines across a plot with the given bounds. */
    static void drawReferenceLines(Graphics2D g, List<ReferenceLine> lines, AxesChart<?, ?> chart, Rectangle2D plot) {
        lines.forEach(line -> drawReferenceLine(g, line, plot, chart.getScreenYFromChart(line.value())));
    }

    private static void drawReferenceLine(Graphics2D g, ReferenceLine line, Rectangle2D plot, double y) {
        float unit = ChartStyle.UNITS;
        g.setColor(ChartStyle.INK);
        g.setStroke(new BasicStroke(
                unit, BasicStroke.CAP_BUTT, BasicStroke.JOIN_MITER, 10, new float[] {4 * unit, 3 * unit}, 0));
        g.draw(new Line2D.Double(plot.getX(), y, plot.getMaxX(), y));
        double width = ChartStyle.width(line.label(), ChartStyle.smallFont());
        ChartStyle.drawText(
                g,
                line.label(),
                ChartStyle.smallFont(),
                ChartStyle.INK,
                plot.getMaxX() - width,
                y - 4 * ChartStyle.UNITS,
                0);
    }
}
