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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import org.knowm.xchart.internal.chartpart.Chart;

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
        Objects.requireNonNull(description, "description must not be null");
        Objects.requireNonNull(name, "name must not be null");
        Objects.requireNonNull(timeline, "timeline must not be null");
        return of(Map.of("", timeline), name, description);
    }

    /**
     * Returns a figure of several timelines side by side with a common vertical axis.
     *
     * @param byTitle timelines by the titles of their panels
     * @throws IllegalArgumentException if there are none
     */
    public static Figure of(Map<String, MemoryTimeline> byTitle, String name, String description) {
        return figure(byTitle, highestPeak(byTitle), "memory in use", name, description);
    }

    /**
     * Returns a figure of several timelines side by side without the category of parameters. Each panel has a separate
     * vertical axis, so that timelines of different height are readable.
     *
     * @param byTitle timelines by the titles of their panels
     * @throws IllegalArgumentException if there are none
     */
    public static Figure aboveParameters(Map<String, MemoryTimeline> byTitle, String name, String description) {
        var above = new LinkedHashMap<String, MemoryTimeline>();
        byTitle.forEach((title, timeline) -> above.put(title, timeline.without(MemoryCategory.PARAMETERS)));
        highestPeak(above); // requires a timeline
        return figure(above, 0, "memory above the parameters", name, description);
    }

    private static long highestPeak(Map<String, MemoryTimeline> byTitle) {
        return byTitle.values().stream()
                .mapToLong(timeline -> timeline.peak().total())
                .max()
                .orElseThrow(() -> new IllegalArgumentException("byTitle must have at least one timeline"));
    }

    /**
     * Draws the panels.
     *
     * @param commonPeak peak in bytes at which the vertical axis of all panels ends; 0 if each ends at the peak of its
     *     timeline
     */
    private static Figure figure(
            Map<String, MemoryTimeline> byTitle, long commonPeak, String yTitle, String name, String description) {
        int width = byTitle.size() == 1 ? 760 : PANEL_WIDTH * byTitle.size();
        var panels = new ArrayList<Chart<?, ?>>();
        byTitle.forEach((title, timeline) -> {
            long peak = commonPeak > 0 ? commonPeak : timeline.peak().total();
            String shown = panels.isEmpty() || commonPeak == 0 ? yTitle : "";
            panels.add(panel(title, timeline, peak, shown, panels.isEmpty(), (width - 80.0) * ChartStyle.UNITS));
        });
        return new Figure(name, description, width, HEIGHT, panels);
    }

    private static AreaPanel panel(
            String title, MemoryTimeline timeline, long axisPeak, String yTitle, boolean first, double legendWidth) {
        double unit = axisPeak >= GB ? GB : MB;
        AxisRange range = AxisRange.of(new double[] {0, 1.03 * axisPeak / unit}, false, true);
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
                range,
                yTitle.isEmpty() ? "" : yTitle + " (" + symbol + ")",
                phases,
                List.of(new Mark.ReferenceLine(
                        peak, "peak " + String.format(Locale.ROOT, "%.3g", peak) + " " + symbol)));
        panel.getStyler().setXAxisMin(x[0]);
        panel.getStyler().setXAxisMax(x[x.length - 1]);
        panel.stack(names, x, heights, symbol);
        return panel;
    }

    private static AreaPanel.AxisSpan stretch(MemoryPhase phase, int begin) {
        return new AreaPanel.AxisSpan(phase.name(), Math.max(0, phase.from() - begin), phase.until() - begin);
    }
}
