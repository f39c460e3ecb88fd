package cs336.figures;

import cs336.basics.ModelSize;
import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.distributed.bench.BucketPrediction;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.profile.Timeline;
import cs336.profile.Trace;
import cs336.units.Separators;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

/** The figures of the chapter on data parallelism, from measurements of {@code cs336 ddp} and {@code peers/ddp.py}. */
public final class DataParallelFigures {
    /** Sizes whose steps with 512 tokens are GPU-bound. Times of smaller ones vary by more than the strategies add. */
    private static final List<ModelSize> GPU_BOUND = List.of(ModelSize.LARGE, ModelSize.XL, ModelSize.B2_7);

    private DataParallelFigures() {}

    /** A bar: the milliseconds that a mode adds to a step, with the standard deviation of the difference. */
    private record AddedTimeBar(String gpus, String mode, double added, double deviation) {}

    /** A bar: the time that a strategy adds to a step, in percent of the step without communication. */
    private record AddedPercentBar(String size, String mode, double percent, double deviation) {}

    /** A point: the exposed communication with a bucket size. */
    private record ExposedTimePoint(double megabytes, double ms, String series, String panel) {}

    /**
     * Plots the milliseconds that the overlapping modes and PyTorch's DDP add to the median step without communication
     * of the same run, for the xl model. Error bars are the standard deviation of the difference between two steps.
     *
     * @param context tokens per sequence
     */
    public static Figure added(MeasurementQuery measurements, int context) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var added = new ArrayList<AddedTimeBar>();
        String xl = "ddp_benchmarking[size=xl, context=" + context
                + ", backend=nccl, nodes=1, batch=2, round=1, metric=total, status=ok";
        Table shown = numbers.select(xl + ", mode=overlapped, bucketed, ddp, ddp-view, bucket_mb=0, 25, 100, 1000]")
                .sortOn("processes", "implementation", "mode", "bucket_mb");
        for (Row row : shown) {
            String none = xl + ", processes=" + row.getInt("processes") + ", mode=none, implementation="
                    + row.getString("implementation") + "]";
            added.add(new AddedTimeBar(
                    row.getInt("processes") + " GPUs",
                    label(row),
                    row.getDouble("median") - median(numbers, none),
                    Math.hypot(
                            row.getDouble("std"),
                            numbers.quantity(none + ".std").value())));
        }
        return Charts.bar(Tables.of(AddedTimeBar.class, added))
                .x("mode", "")
                .y("added", "added to a step (ms)")
                .error("deviation")
                .by("gpus")
                .size(1000, 380)
                .origin(numbers.origin())
                .figure(
                        "data-parallel-added-" + context,
                        "Milliseconds that modes of data parallelism add to a training step of the xl model with sequences of "
                                + Separators.of(context)
                                + " tokens, from Java and by PyTorch's own DistributedDataParallel, with the"
                                + " standard deviation from step to step");
    }

    private static String label(Row row) {
        double megabytes = number(row, "bucket_mb");
        String buckets = megabytes == 0 ? "" : " " + Separators.of(Math.round(megabytes)) + " MB";
        String mode = row.getString("mode");
        String implementation = row.getString("implementation").equals("plain") ? "Java" : "PyTorch";
        return switch (mode) {
            case "ddp", "bucketed" -> implementation + "," + buckets;
            case "ddp-view" -> implementation + ", views" + buckets;
            default -> implementation + ", " + mode;
        };
    }

    /**
     * Plots the time that each strategy adds to a step on two GPUs, in percent of the step without communication, for
     * the model sizes whose steps are GPU-bound.
     *
     * @param measurements defines {@code ddpSizes} as this project's steps of all sizes
     */
    public static Figure sizes(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var added = new ArrayList<AddedPercentBar>();
        String two = "ddpSizes[metric=total, status=ok";
        Table steps = numbers.select(two + ", mode=naive, flat, overlapped, bucketed, bucket_mb=0, 500]");
        for (ModelSize size : GPU_BOUND) {
            for (Row row : steps.where(steps.stringColumn("size").isEqualTo(size.label()))) {
                String none = two + ", mode=none, size=" + size.label() + "]";
                double percent = 100 / median(numbers, none);
                double deviation = Math.hypot(
                        row.getDouble("std"), numbers.quantity(none + ".std").value());
                added.add(new AddedPercentBar(
                        size.label(),
                        row.getString("mode"),
                        percent * row.getDouble("median") - 100,
                        percent * deviation));
            }
        }
        return Charts.bar(Tables.of(AddedPercentBar.class, added))
                .x("size", "size of the model")
                .y("percent", "added to a step (%)")
                .error("deviation")
                .by("mode")
                .rename("bucketed", "bucketed, 500 MB")
                .size(860, 300)
                .origin(numbers.origin())
                .figure(
                        "data-parallel-sizes",
                        "Time that each strategy of data parallelism adds to a training step on two GPUs, in percent of the"
                                + " step without communication, with the standard deviation from step to step, for the"
                                + " model sizes whose steps are GPU-bound");
    }

    /**
     * Plots the exposed communication of the xl model with 512 tokens by the size of the buckets, as measured and as
     * predicted by {@link BucketPrediction}: one panel per number of GPUs.
     *
     * @param measurements measurements of the machine whose steps and all-reduces were measured
     */
    public static Figure buckets(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var points = new ArrayList<ExposedTimePoint>();
        for (BucketPrediction p : BucketPrediction.of(numbers)) {
            String panel = p.processes() + " GPUs";
            points.add(new ExposedTimePoint(p.bucketMb(), p.measured(), "measured", panel));
            points.add(new ExposedTimePoint(p.bucketMb(), p.predicted(), "predicted", panel));
            points.add(new ExposedTimePoint(p.bucketMb(), p.slowed(), "predicted, slower when overlapped", panel));
        }
        return Charts.line(Tables.of(ExposedTimePoint.class, points))
                .x("megabytes", "maximum size of a bucket (MB)")
                .y("ms", "exposed communication (ms)")
                .by("series")
                .panels("panel")
                .logX()
                .logY()
                .size(900, 340)
                .origin(numbers.origin())
                .figure(
                        "data-parallel-xl512",
                        "Time from the end of the backward pass until all gradients are averaged, by the maximum size of a"
                                + " bucket, as measured and as predicted from the sizes of the buckets and separately"
                                + " measured all-reduces; both axes logarithmic");
    }

    /**
     * Plots the timeline of one step on all ranks.
     *
     * @param folder folder of the traces {@code <mode>-rank<n>.json.gz}
     * @param mode label of the mode, such as {@code bucketed-100mb}
     * @param ranks number of ranks
     * @throws IOException if there is no trace of rank 0, or one cannot be read
     */
    public static Figure timeline(Path folder, String mode, int ranks) throws IOException {
        return timeline(folder, mode, mode, ranks);
    }

    private static Figure timeline(Path folder, String label, String inWords, int ranks) throws IOException {
        Map<String, Trace> traces = new LinkedHashMap<>();
        for (int rank = 0; rank < ranks; rank++) {
            traces.put("rank " + rank, Trace.read(folder.resolve(label + "-rank" + rank + ".json.gz")));
        }
        return Timeline.ofRanks(traces)
                .lastStep()
                .levels(1)
                .figure(
                        "data-parallel-" + label,
                        "Computation and communication during one training step on each rank: " + inWords);
    }

    /**
     * Plots the timeline of a measured step of the xl model on both of two GPUs, from its stored traces.
     *
     * @param mode mode of gradient synchronization, such as {@code bucketed}
     * @param bucketMb bucket size in MB (10⁶ bytes); 0 without buckets
     * @param context tokens of a sequence
     * @throws IOException if a trace cannot be read
     */
    public static Figure timeline(MeasurementQuery measurements, String mode, int bucketMb, int context)
            throws IOException {
        String label =
                mode + (bucketMb == 0 ? "" : "-" + bucketMb + "mb") + (context == 128 ? "" : "-" + context + "-tokens");
        String strategy = mode + (bucketMb == 0 ? "" : ", buckets of " + bucketMb + " MB");
        return timeline(
                measurements,
                label,
                "xl, " + strategy + ", " + context + " tokens",
                "size=xl, mode=%s, bucket_mb=%d, context=%d".formatted(mode, bucketMb, context));
    }

    /**
     * Plots the timeline of a measured step of the large model with 512 tokens on both of two GPUs, from its stored
     * traces.
     *
     * @param mode mode of gradient synchronization: {@code naive} or {@code overlapped}
     * @throws IOException if a trace cannot be read
     */
    public static Figure largeTimeline(MeasurementQuery measurements, String mode) throws IOException {
        return timeline(
                measurements,
                "large-" + mode + "-512-tokens",
                "large, " + mode + ", 512 tokens",
                "size=large, year=2025, mode=%s, context=512, round=2".formatted(mode));
    }

    /** Plots traces of two ranks with the origin of the overlap that was measured in them. */
    private static Figure timeline(MeasurementQuery measurements, String label, String inWords, String overlap)
            throws IOException {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        numbers.select("ddp_benchmarking_overlap[processes=2, metric=communication, " + overlap + "]");
        return timeline(measurements.folder().resolve("ddp"), label, inWords, 2).withOrigin(numbers.origin());
    }

    private static double median(MeasurementQuery numbers, String selection) {
        return numbers.quantity(selection + ".median").value();
    }

    /** Returns a cell of a column that is read as integers if all its cells are. */
    private static double number(Row row, String column) {
        return ((Number) row.getObject(column)).doubleValue();
    }
}
