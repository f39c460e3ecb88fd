package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.profile.memory.MemoryTimeline;
import cs336.profile.memory.MemoryTimelineChart;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** The figures of the chapter on memory: timelines of what is in use, and peaks as measured and as predicted. */
public final class MemoryFigures {
    private static final double GB = 1e9;

    private MemoryFigures() {}

    /**
     * Forward passes of the 2.7B model with nothing kept and with the graph kept, from the timelines that were stored.
     */
    public static Figure forward(Path timelines, int context) {
        var byTitle = new LinkedHashMap<String, MemoryTimeline>();
        byTitle.put("nothing kept", read(timelines.resolve("2.7B-" + context + "-fp32-forward")));
        byTitle.put("graph kept", read(timelines.resolve("2.7B-" + context + "-fp32-forward-graph")));
        return MemoryTimelineChart.of(
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
        return MemoryTimelineChart.of(
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
    public static Figure peaks(MeasurementQuery numbers) {
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
