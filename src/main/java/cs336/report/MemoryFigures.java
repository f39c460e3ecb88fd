package cs336.report;

import cs336.profile.MemoryCategory;
import cs336.profile.MemoryPhase;
import cs336.profile.MemoryTimeline;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.knowm.xchart.internal.chartpart.Chart;
import org.knowm.xchart.style.AxesChartStyler;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** The figures of the chapter on memory: timelines of what is in use, and peaks as measured and as predicted. */
public final class MemoryFigures {
    private static final double GB = 1e9;
    private static final double MB = 1e6;
    private static final int PANEL_WIDTH = 480;
    private static final int HEIGHT = 380;

    private MemoryFigures() {}

    /**
     * Memory in use by what it holds, over the allocations and releases of a record.
     *
     * @param name the figure's name
     * @param description what a reader who cannot see the picture is told
     */
    public static Figure timeline(MemoryTimeline timeline, String name, String description) {
        return timelines(Map.of("", timeline), name, description);
    }

    /** Several timelines side by side on a common vertical axis, each under its title. */
    public static Figure timelines(Map<String, MemoryTimeline> byTitle, String name, String description) {
        long peak = byTitle.values().stream()
                .mapToLong(timeline -> timeline.peak().total())
                .max()
                .orElseThrow(() -> new IllegalArgumentException("a figure of timelines needs at least one"));
        double unit = peak >= GB ? GB : MB;
        int width = byTitle.size() == 1 ? 760 : PANEL_WIDTH * byTitle.size();
        AxisRange range = AxisRange.of(new double[] {0, 1.03 * peak / unit}, false, true);
        var panels = new ArrayList<Chart<?, ?>>();
        byTitle.forEach((title, timeline) ->
                panels.add(panel(title, timeline, unit, range, panels.isEmpty(), (width - 80.0) * Look.UNITS)));
        return new Figure(name, description, width, HEIGHT, panels);
    }

    private static AreaPanel panel(
            String title, MemoryTimeline timeline, double unit, AxisRange range, boolean first, double legendWidth) {
        List<MemoryTimeline.Point> points = timeline.points();
        int begin = points.get(0).event();
        double[] x = points.stream().mapToDouble(p -> p.event() - begin).toArray();
        List<MemoryCategory> categories = List.of(MemoryCategory.values());
        List<String> names = categories.stream().map(MemoryCategory::toString).toList();
        double[][] heights = categories.stream()
                .map(c -> points.stream().mapToDouble(p -> p.bytes(c) / unit).toArray())
                .toArray(double[][]::new);
        List<AreaPanel.Stretch> phases =
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
                List.of(new Mark.Level(peak, "peak " + String.format(Locale.ROOT, "%.3g", peak) + " " + symbol)));
        AxesChartStyler styler = panel.getStyler();
        Look.apply(styler);
        styler.setXAxisTicksVisible(false);
        styler.setYAxisMin(range.min());
        styler.setYAxisMax(range.max());
        styler.setYAxisTickLabelsFormattingFunction(range.labels());
        styler.setYAxisTickMarkSpacingHint(44 * Look.UNITS);
        styler.setPlotContentSize(1);
        styler.setXAxisMin(x[0]);
        styler.setXAxisMax(x[x.length - 1]);
        panel.setYAxisTitle(first ? "memory in use (" + symbol + ")" : "");
        panel.stack(names, x, heights);
        return panel;
    }

    private static AreaPanel.Stretch stretch(MemoryPhase phase, int begin) {
        return new AreaPanel.Stretch(phase.name(), Math.max(0, phase.from() - begin), phase.until() - begin);
    }

    /** Forward passes of the 2.7B model with nothing kept and with the graph kept, from the timelines that were stored. */
    public static Figure forward(Path timelines, int context) {
        var byTitle = new LinkedHashMap<String, MemoryTimeline>();
        byTitle.put("nothing kept", read(timelines.resolve("2.7B-" + context + "-fp32-forward")));
        byTitle.put("graph kept", read(timelines.resolve("2.7B-" + context + "-fp32-forward-graph")));
        return timelines(
                byTitle,
                "memory-forward",
                "Memory in use by what it holds during two forward passes of the 2.7B model, batch 4, context "
                        + context + ", fp32: without a graph, and with the graph that a backward pass needs");
    }

    /** Two training steps of the 2.7B model in fp32 and under autocast, from the timelines that were stored. */
    public static Figure steps(Path timelines, int context) {
        var byTitle = new LinkedHashMap<String, MemoryTimeline>();
        byTitle.put("fp32", read(timelines.resolve("2.7B-" + context + "-fp32-step")));
        byTitle.put("bf16 autocast", read(timelines.resolve("2.7B-" + context + "-bf16-step")));
        return timelines(
                byTitle,
                "memory-steps",
                "Memory in use by what it holds during the first two training steps of the 2.7B model, batch 4, context "
                        + context + ", in fp32 and under autocast to bf16");
    }

    private static MemoryTimeline read(Path folder) {
        try {
            return MemoryTimeline.read(folder.resolve("timeline.csv"));
        } catch (IOException e) {
            throw new UncheckedIOException(e.getMessage(), e);
        }
    }

    /** Peaks of each size as measured and as predicted, a panel a pass. */
    public static Figure peaks(Numbers numbers) {
        Table table = Table.create(
                StringColumn.create("size"),
                StringColumn.create("pass"),
                StringColumn.create("how"),
                DoubleColumn.create("GB"));
        for (Row row : numbers.select("memory_profiling[year=2024, implementation=plain, dtype=fp32,"
                + " metric=peak-memory, predicted-peak-memory, pass=forward, step, status=ok]")) {
            Row to = table.appendRow();
            to.setString("size", row.getString("size"));
            to.setString("pass", row.getString("pass"));
            to.setString("how", row.getString("metric").equals("peak-memory") ? "measured" : "predicted");
            to.setDouble("GB", row.getDouble("mean") / GB);
        }
        return Charts.bar(table)
                .x("size", "size of the model")
                .y("GB", "peak memory (GB)")
                .by("how")
                .panels("pass")
                .rename("forward", "forward, nothing kept")
                .rename("step", "training step")
                .logY()
                .size(820, 340)
                .figure(
                        "memory-peaks",
                        "Peak memory of each size of the model as measured and as predicted, 2024 form, batch 16, context 128,"
                                + " fp32: a forward pass with nothing kept, and a training step");
    }
}
