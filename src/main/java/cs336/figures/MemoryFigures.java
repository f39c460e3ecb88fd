package cs336.figures;

import static cs336.units.UnitFactors.GB;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.profile.memory.MemoryTimeline;
import cs336.profile.memory.MemoryTimelineChart;
import cs336.units.Separators;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import tech.tablesaw.api.Row;

/** The figures of the chapter on memory: timelines by category, and measured and predicted peaks. */
public final class MemoryFigures {
    private MemoryFigures() {}

    /** A bar: the measured or predicted peak memory of a pass. */
    private record PeakMemoryBar(String size, String pass, String series, double gb) {}

    /**
     * Plots the memory of forward passes of the 2.7B model without and with a graph, above that of the parameters, from
     * stored timelines.
     */
    public static Figure forward(MeasurementQuery measurements, int context) {
        return forward(measurements, 2025, context, "memory-forward", "2.7B model, batch 4");
    }

    /** Plots the same as {@link #forward(MeasurementQuery, int)} for the model of 2024: batch 16, context 128. */
    public static Figure forward2024(MeasurementQuery measurements) {
        return forward(measurements, 2024, 128, "memory-forward-2024", "2.7B model of 2024, batch 16");
    }

    private static Figure forward(MeasurementQuery measurements, int year, int context, String name, String model) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var byTitle = new LinkedHashMap<String, MemoryTimeline>();
        byTitle.put("no autograd graph", timeline(numbers, year, context, "fp32", "forward"));
        byTitle.put("autograd graph kept", timeline(numbers, year, context, "fp32", "forward-graph"));
        return MemoryTimelineChart.aboveParameters(
                        byTitle,
                        name,
                        "Memory above the parameters by category during two forward passes of the " + model
                                + ", context " + Separators.of(context)
                                + ", fp32: without an autograd graph a comb with one tooth per layer, with the graph a"
                                + " staircase")
                .withOrigin(numbers.origin());
    }

    /** Plots the memory of two training steps of the 2.7B model in fp32 and under autocast, from stored timelines. */
    public static Figure steps(MeasurementQuery measurements, int context) {
        return steps(measurements, 2025, context, "memory-steps", "2.7B model, batch 4");
    }

    /** Plots the same as {@link #steps(MeasurementQuery, int)} for the model of 2024: batch 16, context 128. */
    public static Figure steps2024(MeasurementQuery measurements) {
        return steps(measurements, 2024, 128, "memory-steps-2024", "2.7B model of 2024, batch 16");
    }

    private static Figure steps(MeasurementQuery measurements, int year, int context, String name, String model) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var byTitle = new LinkedHashMap<String, MemoryTimeline>();
        byTitle.put("fp32", timeline(numbers, year, context, "fp32", "step"));
        byTitle.put("bf16 autocast", timeline(numbers, year, context, "bf16", "step"));
        return MemoryTimelineChart.of(
                        byTitle,
                        name,
                        "Memory in use by category during the first two training steps of the %s, context %,d, in fp32 and under autocast to bf16"
                                .formatted(model, context))
                .withOrigin(numbers.origin());
    }

    /** Returns a stored timeline of the 2.7B model, and counts the row of its peak as used. */
    private static MemoryTimeline timeline(MeasurementQuery numbers, int year, int context, String dtype, String pass) {
        numbers.select(
                "memory_profiling[year=%d, implementation=plain, size=2.7B, context=%d, dtype=%s, pass=%s, metric=peak-memory]"
                        .formatted(year, context, dtype, pass));
        String folder = "memory/%s2.7B-%d-%s-%s".formatted(year == 2024 ? "2024-" : "", context, dtype, pass);
        Path timeline = numbers.folder().resolve(folder).resolve("timeline.csv");
        if (!Files.exists(timeline)) {
            throw new IllegalArgumentException(
                    "context: no timeline is stored for context " + context + ": " + timeline + " does not exist");
        }
        try {
            return MemoryTimeline.read(timeline);
        } catch (IOException e) {
            throw new UncheckedIOException(e.getMessage(), e);
        }
    }

    /** Plots the measured and predicted peak memory of each model size, one panel per pass. */
    public static Figure peaks(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var peaks = new ArrayList<PeakMemoryBar>();
        for (Row row : numbers.select("memory_profiling[year=2024, implementation=plain, dtype=fp32,"
                + " metric=peak-memory, predicted-peak-memory, pass=forward, step, status=ok]")) {
            String series = row.getString("metric").equals("peak-memory") ? "measured" : "predicted";
            peaks.add(new PeakMemoryBar(
                    row.getString("size"), row.getString("pass"), series, row.getDouble("mean") / GB));
        }
        return Charts.bar(Tables.of(PeakMemoryBar.class, peaks))
                .x("size", "size of the model")
                .y("gb", "peak memory (GB)")
                .by("series")
                .panels("pass")
                .rename("forward", "forward, no autograd graph")
                .rename("step", "training step")
                .logY()
                .size(820, 340)
                .origin(numbers.origin())
                .figure(
                        "memory-peaks",
                        "Peak memory of each size of the model as measured and as predicted, 2024 model, batch 16, context 128,"
                                + " fp32: a forward pass without an autograd graph, and a training step");
    }
}
