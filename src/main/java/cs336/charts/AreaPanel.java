package cs336.charts;

import java.awt.Graphics2D;
import java.awt.geom.Line2D;
import java.awt.geom.Rectangle2D;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYSeries;
import org.knowm.xchart.style.lines.SeriesLines;
import org.knowm.xchart.style.markers.SeriesMarkers;

/** A stacked area chart over a numeric x, with labelled intervals of x above the plot. */
public final class AreaPanel extends XYChart {
    /** Height of the space for interval names between title and plot, in drawing units. */
    private static final int NAMES = 12 * ChartStyle.UNITS;

    private static final double BETWEEN_NAMES = 4 * ChartStyle.UNITS;

    private final Frame frame;
    private final HorizontalScale scale;
    private final List<AxisSpan> spans;
    private final List<Mark.ReferenceLine> referenceLines;

    private List<String> names = List.of();
    private double[] positions = {};
    private double[][] heights = {};
    private String unit = "";

    /** A labelled interval of the horizontal axis, in data units. */
    public record AxisSpan(String name, double from, double until) {}

    /** Creates a chart without areas; see {@link #stack}. */
    public AreaPanel(
            Frame frame,
            HorizontalScale scale,
            AxisRange range,
            String yTitle,
            List<AxisSpan> spans,
            List<Mark.ReferenceLine> referenceLines) {
        super(ChartStyle.WIDTH, ChartStyle.HEIGHT);
        this.frame = frame;
        this.scale = scale;
        this.spans = spans;
        this.referenceLines = referenceLines;
        Plot.applyStyle(this, range, yTitle);
    }

    /**
     * Adds the areas.
     *
     * @param names names of the areas, from bottom to top
     * @param x positions of the heights, in ascending order
     * @param heights heights of the areas, [names.size()][x.length]
     * @param unit unit of the heights
     * @throws IllegalArgumentException if the numbers of names, positions and heights do not match
     */
    public void stack(List<String> names, double[] x, double[][] heights, String unit) {
        Objects.requireNonNull(names, "names must not be null");
        Objects.requireNonNull(x, "x must not be null");
        Objects.requireNonNull(unit, "unit must not be null");
        if (heights.length != names.size() || Arrays.stream(heights).anyMatch(area -> area.length != x.length)) {
            throw new IllegalArgumentException(
                    "heights must have " + x.length + " values for each of the " + names.size() + " names");
        }
        this.names = names;
        this.positions = x;
        this.heights = heights;
        this.unit = unit;
        double[][] tops = new double[heights.length][x.length];
        for (int layer = 0; layer < heights.length; layer++) {
            for (int i = 0; i < x.length; i++) {
                tops[layer][i] = heights[layer][i] + (layer == 0 ? 0 : tops[layer - 1][i]);
            }
        }
        // Each area reaches down to zero; the lower areas are drawn over it.
        for (int layer = heights.length - 1; layer >= 0; layer--) {
            XYSeries series = addSeries(names.get(layer), x, tops[layer]);
            series.setXYSeriesRenderStyle(XYSeries.XYSeriesRenderStyle.Area);
            series.setFillColor(ChartStyle.color(layer));
            series.setLineColor(ChartStyle.color(layer));
            series.setLineStyle(SeriesLines.NONE);
            series.setMarker(SeriesMarkers.NONE);
        }
    }

    @Override
    public void paint(Graphics2D g, int width, int height) {
        frame.paintPanel(g, width, height, plotHeight -> {
            g.translate(0, NAMES);
            super.paint(g, width, plotHeight - NAMES);
            Rectangle2D area = plot.getBounds();
            var withNames =
                    new Rectangle2D.Double(area.getX(), area.getY() - NAMES, area.getWidth(), area.getHeight() + NAMES);
            frame.paint(g, withNames, scale.ticks(this, area.getWidth(), 60));
            paintSpans(g);
            addHoverTexts(g);
            HoverTexts.addAxes(g, this, area, scale.spacing(), true);
            Mark.drawReferenceLines(g, referenceLines, this, area);
            g.translate(0, -NAMES);
        });
    }

    /** Adds a text with the heights of all areas to the column around each x. */
    private void addHoverTexts(Graphics2D g) {
        Rectangle2D area = plot.getBounds();
        for (int i = 0; i < positions.length; i++) {
            int column = i;
            double at = positions[i];
            double from = getScreenXFromChart(i == 0 ? at : (positions[i - 1] + at) / 2);
            double until = getScreenXFromChart(i == positions.length - 1 ? at : (at + positions[i + 1]) / 2);
            var place = new Rectangle2D.Double(from, area.getY(), until - from, area.getHeight());
            HoverTexts.add(g, place, () -> hoverText(column));
        }
    }

    private String hoverText(int column) {
        double at = positions[column];
        var lines = new ArrayList<String>();
        spans.stream().filter(span -> at >= span.from() && at < span.until()).forEach(span -> lines.add(span.name()));
        double total = 0;
        for (int layer = heights.length - 1; layer >= 0; layer--) {
            double height = heights[layer][column];
            total += height;
            if (height > 0) {
                lines.add(names.get(layer) + ": " + ChartStyle.rounded(height) + " " + unit);
            }
        }
        lines.add("total: " + ChartStyle.rounded(total) + " " + unit);
        return String.join("\n", lines);
    }

    /**
     * Draws a line at both ends of each interval, and its name above it: centred, or aligned with one end to avoid
     * overlap. A name that overlaps others in all three positions is omitted.
     */
    private void paintSpans(Graphics2D g) {
        Rectangle2D area = plot.getBounds();
        g.setColor(ChartStyle.FAINT_INK);
        g.setStroke(ChartStyle.hairline(0.6));
        for (AxisSpan span : spans) {
            for (double end : new double[] {span.from(), span.until()}) {
                double x = getScreenXFromChart(end);
                g.draw(new Line2D.Double(x, area.getY(), x, area.getMaxY()));
            }
        }
        var widestFirst = new ArrayList<>(spans);
        widestFirst.sort(Comparator.comparingDouble(s -> s.from() - s.until()));
        var taken = new ArrayList<Rectangle2D>();
        for (AxisSpan span : widestFirst) {
            double from = getScreenXFromChart(span.from());
            double until = getScreenXFromChart(span.until());
            double width = ChartStyle.width(span.name(), ChartStyle.smallFont());
            for (double x : new double[] {(from + until - width) / 2, until - width, from}) {
                var box = new Rectangle2D.Double(x - BETWEEN_NAMES, 0, width + BETWEEN_NAMES, 1);
                if (taken.stream().noneMatch(box::intersects)) {
                    ChartStyle.drawText(
                            g,
                            span.name(),
                            ChartStyle.smallFont(),
                            ChartStyle.INK,
                            x,
                            area.getY() - 4 * ChartStyle.UNITS,
                            0);
                    taken.add(box);
                    break;
                }
            }
        }
    }
}
