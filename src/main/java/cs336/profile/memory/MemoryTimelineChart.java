package cs336.profile.memory;

import static cs336.units.UnitFactors.GB;
import static cs336.units.UnitFactors.MB;

import cs336.charts.AreaPanel;
import cs336.charts.AxisRange;
import cs336.charts.ChartStyle;
import cs336.charts.Figure;
import cs336.charts.Frame;
import cs336.charts.HorizontalScale;
import cs336.charts.Legend;
import cs336.charts.Mark;
import cs336.charts.Spacing;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.knowm.xchart.internal.chartpart.Chart;
import org.knowm.xchart.style.AxesChartStyler;

/** Figures of {@link MemoryTimeline}s: stacked areas of the memory in use by category over allocations and releases. */
public final class MemoryTimelineChart {
    private static final int PANEL_WIDTH = 480;
    private static final int HEIGHT = 380;

    private MemoryTimelineChart() {}

    /**
     * Returns the figure of one timeline.
     *
     * @param name name of the figure
     * @param description alternative text of the figure
     */
    public static Figure of(MemoryTimeline timeline, String name, String description) {
        return of(Map.of("", timeline), name, description);
    }

    /**
     * Returns a figure of several timelines side by side with a common vertical axis.
     *
     * @param byTitle timelines by the titles of their panels
     * @throws IllegalArgumentException if there are none
     */
    public static Figure of(Map<String, MemoryTimeline> byTitle, String name, String description) {
        long peak = byTitle.values().stream()
                .mapToLong(timeline -> timeline.peak().total())
                .max()
                .orElseThrow(() -> new IllegalArgumentException("byTitle must have at least one timeline"));
        double unit = peak >= GB ? GB : MB;
        int width = byTitle.size() == 1 ? 760 : PANEL_WIDTH * byTitle.size();
        AxisRange range = AxisRange.of(new double[] {0, 1.03 * peak / unit}, false, true);
        var panels = new ArrayList<Chart<?, ?>>();
        byTitle.forEach((title, timeline) ->
                panels.add(panel(title, timeline, unit, range, panels.isEmpty(), (width - 80.0) * ChartStyle.UNITS)));
        return new Figure(name, description, width, HEIGHT, panels);
    }

    private static AreaPanel panel(
            String title, MemoryTimeline timeline, double unit, AxisRange range, boolean first, double legendWidth) {
        List<MemoryTimeline.MemoryPoint> points = timeline.points();
        int begin = points.get(0).event();
        double[] x = points.stream().mapToDouble(p -> p.event() - begin).toArray();
        List<MemoryCategory> categories = List.of(MemoryCategory.values());
        List<String> names = categories.stream().map(MemoryCategory::toString).toList();
        double[][] heights = categories.stream()
                .map(c -> points.stream().mapToDouble(p -> p.bytes(c) / unit).toArray())
                .toArray(double[][]::new);
        List<AreaPanel.AxisSpan> phases =
                timeline.phases().stream().map(phase -> stretch(phase, begin)).toList();
        String symbol = unit == GB ? "GB" : "MB";
        double peak = timeline.peak().total() / unit;
        var frame = new Frame(
                title,
                !title.isEmpty(),
                new Legend("", names, legendWidth),
                first,
                "allocations and releases, in their order");
        var scale = HorizontalScale.of(x, Spacing.LINEAR);
        var panel = new AreaPanel(
                frame,
                scale,
                phases,
                List.of(new Mark.ReferenceLine(
                        peak, "peak " + String.format(Locale.ROOT, "%.3g", peak) + " " + symbol)));
        AxesChartStyler styler = panel.getStyler();
        ChartStyle.apply(styler);
        styler.setXAxisTicksVisible(false);
        styler.setYAxisMin(range.min());
        styler.setYAxisMax(range.max());
        styler.setYAxisTickLabelsFormattingFunction(range.labels());
        styler.setYAxisTickMarkSpacingHint(44 * ChartStyle.UNITS);
        styler.setPlotContentSize(1);
        styler.setXAxisMin(x[0]);
        styler.setXAxisMax(x[x.length - 1]);
        panel.setYAxisTitle(first ? "memory in use (" + symbol + ")" : "");
        panel.stack(names, x, heights);
        return panel;
    }

    private static AreaPanel.AxisSpan stretch(MemoryPhase phase, int begin) {
        return new AreaPanel.AxisSpan(phase.name(), Math.max(0, phase.from() - begin), phase.until() - begin);
    }
}
