package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import java.util.ArrayList;
import tech.tablesaw.api.Row;

/** The figures of the chapter on end-to-end benchmarking, from measurements of {@code cs336 benchmark}. */
public final class BenchmarkingFigures {
    private BenchmarkingFigures() {}

    /** A bar: this project's median time divided by that of PyTorch eager. */
    private record PyTorchRatio(String size, String pass, String context, double ratio) {}

    /** Plots the time of each phase of a training step by context length, one line per model size. */
    public static Figure phases(MeasurementQuery numbers) {
        return Charts.line(numbers.select("benchmarking_script[year=2025, pass=step, implementation=plain,"
                        + " metric=forward, backward, optimizer]"))
                .x("context", "context (tokens)")
                .y("mean", "time (ms)")
                .error("std")
                .by("size")
                .panels("metric")
                .log2X()
                .logY()
                .size(960, 290)
                .figure(
                        "benchmarking-phases",
                        "Time of forward pass, backward pass and optimizer step over the context, one line per size"
                                + " of the model, in fp32 with a batch of 4");
    }

    /** Plots the measured wall time of a forward pass with and without device synchronization, by context length. */
    public static Figure synchronization(MeasurementQuery numbers, String size) {
        return Charts.line(numbers.select("benchmarking_script[year=2025, pass=forward, implementation=plain, size="
                        + size + ", metric=forward, unsynchronized]"))
                .x("context", "context (tokens)")
                .y("median", "time (ms)")
                .by("metric")
                .rename("forward", "synchronized")
                .rename("unsynchronized", "not synchronized")
                .log2X()
                .logY()
                .size(620, 250)
                .figure(
                        "benchmarking-synchronization",
                        "Time of a forward pass of the " + size + " model over the context, as measured with"
                                + " and without device synchronization");
    }

    /** Plots the time of each step of a process without warm-up, one line per model size. */
    public static Figure firstSteps(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        return Charts.line(numbers.select("benchmarking_warmup_steps[year=2025, warmup=0, metric=total]"))
                .x("step", "step of the process")
                .y("value", "time (ms)")
                .by("size")
                .panels("pass")
                .logY()
                .size(960, 290)
                .origin(numbers.origin())
                .figure(
                        "benchmarking-first-steps",
                        "Time of each of the first ten steps of a fresh process, one line per size of the model, for"
                                + " forward passes and for forward and backward passes");
    }

    /** Plots this project's median time divided by that of PyTorch eager from Python, for each model size and pass. */
    public static Figure comparedWithPyTorch(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var ratios = new ArrayList<PyTorchRatio>();
        for (Row theirs : numbers.select("benchmarking_script[metric=total, implementation=pytorch-eager]")) {
            String same =
                    "benchmarking_script[year=2025, metric=total, size=%s, context=%s, pass=%s, implementation=%%s].median"
                            .formatted(theirs.getString("size"), theirs.getInt("context"), theirs.getString("pass"));
            String ratio = same.formatted("plain") + " / " + same.formatted("pytorch-eager");
            ratios.add(new PyTorchRatio(
                    theirs.getString("size"),
                    theirs.getString("pass"),
                    "context " + theirs.getInt("context"),
                    numbers.quantity(ratio).value()));
        }
        return Charts.bar(Tables.of(PyTorchRatio.class, ratios))
                .x("size", "size of the model")
                .y("ratio", "time ÷ time of PyTorch eager")
                .by("pass")
                .panels("context")
                .level(1, "as fast")
                .size(960, 290)
                .origin(numbers.origin())
                .figure(
                        "benchmarking-compared-with-pytorch",
                        "Median time from Java over that of PyTorch eager from Python, for each size of the model and"
                                + " each pass, measured in one run");
    }
}
