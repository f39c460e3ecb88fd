package cs336.profile;

import cs336.charts.ChartStyle;
import cs336.charts.Frame;
import cs336.charts.HorizontalScale;
import cs336.charts.HoverTexts;
import cs336.charts.Legend;
import cs336.charts.Spacing;
import java.awt.Color;
import java.awt.Graphics2D;
import java.awt.geom.Rectangle2D;
import java.util.List;
import java.util.function.Function;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYSeries;
import org.knowm.xchart.style.markers.SeriesMarkers;

/** The panel of a {@link Timeline}: its rows over a time axis. */
public final class TimelinePanel extends XYChart {
    private static final int ROW = 20 * ChartStyle.UNITS;
    private static final double GAP = 2 * ChartStyle.UNITS;
    private static final double PADDING = 3 * ChartStyle.UNITS;
    private static final double BASELINE = 13.5 * ChartStyle.UNITS;
    private static final double MIN_WIDTH = 0.5 * ChartStyle.UNITS;
    private static final int RIGHT = 10 * ChartStyle.UNITS; // half of the last tick label
    private static final double AFTER_LABEL = 8 * ChartStyle.UNITS;

    private final List<Timeline.Lane> lanes;
    private final Function<String, Color> color; // of a kind
    private final HorizontalScale scale;
    private final double labelWidth;
    private final Frame frame;

    /**
     * Creates a panel with the colours of the palette.
     *
     * @param lanes rows from top to bottom
     * @param kinds kinds of bars in the order of the palette
     * @param milliseconds length of the time axis
     * @param width width in pixels
     */
    public TimelinePanel(List<Timeline.Lane> lanes, List<String> kinds, double milliseconds, int width) {
        this(lanes, kinds, kind -> ChartStyle.color(kinds.indexOf(kind)), milliseconds, width);
    }

    /**
     * Creates a panel.
     *
     * @param kinds kinds of bars in the order of the legend
     * @param color returns the colour of a kind
     */
    TimelinePanel(
            List<Timeline.Lane> lanes,
            List<String> kinds,
            Function<String, Color> color,
            double milliseconds,
            int width) {
        super(width * ChartStyle.UNITS, ChartStyle.HEIGHT);
        this.lanes = lanes;
        this.color = color;
        scale = new HorizontalScale(Spacing.LINEAR, 0, milliseconds);
        labelWidth = lanes.stream()
                        .mapToDouble(lane -> ChartStyle.width(lane.label(), ChartStyle.smallFont()))
                        .max()
                        .orElse(0)
                + AFTER_LABEL;
        List<Color> colors = kinds.stream().map(color).toList();
        var legend = new Legend("", kinds, colors, width * ChartStyle.UNITS - labelWidth - ROW);
        frame = new Frame("", false, legend, true, "time (ms)");
        ChartStyle.apply(getStyler());
        getStyler().setXAxisTicksVisible(false);
        getStyler().setYAxisTicksVisible(false);
        getStyler().setPlotGridLinesVisible(false);
        getStyler().setXAxisMin(0.0);
        getStyler().setXAxisMax(milliseconds);
        getStyler().setYAxisMin(0.0);
        getStyler().setYAxisMax(1.0);
        getStyler().setPlotContentSize(1);
        XYSeries corners = addSeries("corners", new double[] {0, milliseconds}, new double[] {0, 1});
        corners.setMarker(SeriesMarkers.NONE);
        corners.setLineColor(new Color(255, 255, 255, 0));
    }

    /** Returns the height that all rows need, in pixels. */
    public int pixels() {
        return Math.max(100, (frame.top() + lanes.size() * ROW + frame.bottom()) / ChartStyle.UNITS + 14);
    }

    @Override
    public void paint(Graphics2D g, int width, int height) {
        g.setColor(Color.WHITE);
        g.fillRect(0, 0, width, height);
        int left = (int) Math.ceil(labelWidth);
        g.translate(left, frame.top());
        super.paint(g, width - left - RIGHT, height - frame.top() - frame.bottom());
        Rectangle2D plot = this.plot.getBounds();
        frame.paint(
                g,
                plot,
                scale.ticks(11).stream()
                        .filter(value -> value >= 0 && value <= scale.max())
                        .map(value -> new Frame.Tick(getScreenXFromChart(value), ChartStyle.number(value)))
                        .toList());
        HoverTexts.addAxes(g, this, plot, Spacing.LINEAR, false);
        double row = plot.getHeight() / lanes.size();
        for (int i = 0; i < lanes.size(); i++) {
            double y = plot.getY() + i * row;
            String label = lanes.get(i).label();
            double wide = ChartStyle.width(label, ChartStyle.smallFont());
            double baseline = y + (row - ROW) / 2 + BASELINE;
            ChartStyle.drawText(
                    g, label, ChartStyle.smallFont(), ChartStyle.INK, plot.getX() - AFTER_LABEL - wide, baseline, 0);
            paint(g, lanes.get(i), y, row);
        }
        g.translate(-left, -frame.top());
    }

    private void paint(Graphics2D g, Timeline.Lane lane, double y, double row) {
        double painted = Double.NEGATIVE_INFINITY;
        for (Timeline.Bar bar : lane.bars()) {
            double x = getScreenXFromChart(bar.start());
            double end = getScreenXFromChart(bar.end());
            if (end < painted + MIN_WIDTH && end - x < MIN_WIDTH) {
                continue; // too narrow to see next to the previous bar
            }
            double wide = Math.max(end - x, MIN_WIDTH);
            g.setColor(bar.kind() == null ? FlamePanel.tinted(5, bar.depth() % 3) : color.apply(bar.kind()));
            g.fill(new Rectangle2D.Double(x, y + GAP / 2, wide, row - GAP));
            painted = x + wide;
            HoverTexts.add(g, new Rectangle2D.Double(x, y + GAP / 2, wide, row - GAP), () -> hoverText(lane, bar));
            if (bar.kind() == null && ChartStyle.width(bar.name(), ChartStyle.smallFont()) <= wide - 2 * PADDING) {
                double baseline = y + (row - ROW) / 2 + BASELINE;
                ChartStyle.drawText(g, bar.name(), ChartStyle.smallFont(), ChartStyle.INK, x + PADDING, baseline, 0);
            }
        }
    }

    private static String hoverText(Timeline.Lane lane, Timeline.Bar bar) {
        String name = bar.name().indexOf('<') >= 0 ? KernelName.brief(bar.name()) : bar.name();
        return "%s\n%s\n%s ms, from %s ms to %s ms"
                .formatted(
                        name,
                        lane.label(),
                        ChartStyle.rounded(bar.end() - bar.start()),
                        ChartStyle.rounded(bar.start()),
                        ChartStyle.rounded(bar.end()));
    }
}
