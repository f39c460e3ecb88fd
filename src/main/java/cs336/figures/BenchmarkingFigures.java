package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** The figures of the chapter on end-to-end benchmarking, from what {@code cs336 benchmark} stored. */
public final class BenchmarkingFigures {
    private BenchmarkingFigures() {}

    /** Time of each phase of a training step over the context, a line a size. */
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
                .size(960, 340)
                .figure(
                        "benchmarking-phases",
                        "Time of forward pass, backward pass and optimizer step over the context, a line for each size"
                                + " of the model, in fp32 with a batch of 4");
    }

    /** What the clock shows for a forward pass of one size with and without waiting for the device. */
    public static Figure synchronisation(MeasurementQuery numbers, String size) {
        return Charts.line(numbers.select("benchmarking_script[year=2025, pass=forward, implementation=plain, size="
                        + size + ", metric=forward, unsynchronised]"))
                .x("context", "context (tokens)")
                .y("median", "time (ms)")
                .by("metric")
                .rename("forward", "waiting for the device")
                .rename("unsynchronised", "not waiting")
                .log2X()
                .logY()
                .size(620, 340)
                .figure(
                        "benchmarking-synchronisation",
                        "Time of a forward pass of the " + size + " model over the context, as the clock shows it with"
                                + " and without waiting for the device");
    }

    /** Every step of processes that do not warm up, a line a size. */
    public static Figure firstSteps(MeasurementQuery numbers) {
        return Charts.line(numbers.select("benchmarking_warmup_steps[warmup=0, metric=total]"))
                .x("step", "step of the process")
                .y("value", "time (ms)")
                .by("size")
                .panels("pass")
                .logY()
                .size(960, 340)
                .figure(
                        "benchmarking-first-steps",
                        "Time of each of the first ten steps of a fresh process, a line for each size of the model, for"
                                + " forward passes and for forward and backward passes");
    }

    /** Our median time over that of PyTorch eager from Python, for each size and pass. */
    public static Figure besidePyTorch(MeasurementQuery numbers) {
        Table ratios = Table.create(
                StringColumn.create("size"),
                StringColumn.create("pass"),
                StringColumn.create("context"),
                DoubleColumn.create("ratio"));
        for (Row theirs : numbers.select("benchmarking_script[metric=total, implementation=pytorch-eager]")) {
            String same =
                    "benchmarking_script[year=2025, metric=total, size=%s, context=%s, pass=%s, implementation=%%s].median"
                            .formatted(theirs.getString("size"), theirs.getInt("context"), theirs.getString("pass"));
            String ratio = same.formatted("plain") + " / " + same.formatted("pytorch-eager");
            Row row = ratios.appendRow();
            row.setString("size", theirs.getString("size"));
            row.setString("pass", theirs.getString("pass"));
            row.setString("context", "context " + theirs.getInt("context"));
            row.setDouble("ratio", numbers.quantity(ratio).value());
        }
        return Charts.bar(ratios)
                .x("size", "size of the model")
                .y("ratio", "time ÷ time of PyTorch eager")
                .by("pass")
                .panels("context")
                .level(1, "as fast")
                .size(960, 340)
                .figure(
                        "benchmarking-beside-pytorch",
                        "Median time from Java over that of PyTorch eager from Python, for each size of the model and"
                                + " each pass, measured in one run");
    }
}
