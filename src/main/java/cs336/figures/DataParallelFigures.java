package cs336.figures;

import cs336.basics.ModelSize;
import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.profile.Timeline;
import cs336.profile.Trace;
import cs336.scaling.BucketModel;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * The figures of the chapter on data parallelism, from what {@code cs336 ddp} and its peer stored. Selections begin
 * with the name {@code ddp}, to be defined as the measurements of one machine's first round.
 */
public final class DataParallelFigures {
    private static final int CURVE = 24;

    private DataParallelFigures() {}

    /**
     * What the modes that send during the backward pass add to the median step without communication of the same call,
     * for the xl model: a bar for each call that has PyTorch's own beside ours. A bar's error is the deviation of the
     * difference between one step of each.
     *
     * @param context tokens of a sequence
     */
    public static Figure added(MeasurementQuery numbers, int context) {
        Table added = Table.create(
                StringColumn.create("call"),
                StringColumn.create("mode"),
                DoubleColumn.create("added"),
                DoubleColumn.create("deviation"));
        String xl = "ddp_benchmarking[size=xl, context=" + context
                + ", backend=nccl, nodes=1, batch=2, metric=total, status=ok";
        Table shown = numbers.select(xl + ", mode=overlapped, bucketed, ddp, ddp-view, bucket_mb=0, 25, 100, 1000]")
                .sortOn("processes", "round", "implementation", "mode", "bucket_mb");
        for (Row row : shown) {
            String call = ", processes=%d, round=%d".formatted(row.getInt("processes"), row.getInt("round"));
            String none = xl + call + ", mode=none, implementation=" + row.getString("implementation") + "]";
            Row bar = added.appendRow();
            bar.setString("call", row.getInt("processes") + " cards" + (row.getInt("round") > 1 ? ", again" : ""));
            bar.setString("mode", named(row));
            bar.setDouble("added", row.getDouble("median") - median(numbers, none));
            bar.setDouble(
                    "deviation",
                    Math.hypot(
                            row.getDouble("std"),
                            numbers.quantity(none + ".std").value()));
        }
        return Charts.bar(added)
                .x("mode", "")
                .y("added", "added to a step (ms)")
                .error("deviation")
                .by("call")
                .size(1000, 380)
                .figure(
                        "data-parallel-added-" + context,
                        "Milliseconds that modes of data parallelism add to a training step of the xl model with sequences of "
                                + context + " tokens, from Java and by PyTorch's own DistributedDataParallel, with the"
                                + " deviation from step to step");
    }

    private static String named(Row row) {
        double megabytes = number(row, "bucket_mb");
        String buckets = megabytes == 0 ? "" : " " + Math.round(megabytes) + " MB";
        String mode = row.getString("mode");
        String who = row.getString("implementation").equals("plain") ? "Java" : "PyTorch";
        return switch (mode) {
            case "ddp", "bucketed" -> who + "," + buckets;
            case "ddp-view" -> who + ", views" + buckets;
            default -> who + ", " + mode;
        };
    }

    /** Time of a step over that without communication, for each size of the model and each mode, on two cards. */
    public static Figure sizes(MeasurementQuery numbers) {
        Table ratios =
                Table.create(StringColumn.create("size"), StringColumn.create("mode"), DoubleColumn.create("ratio"));
        String two = "ddp[implementation=plain, backend=nccl, nodes=1, processes=2, batch=2, metric=total, status=ok";
        Table steps = numbers.select(two + ", mode=naive, flat, overlapped, bucketed, bucket_mb=0, 100]");
        for (ModelSize size : ModelSize.values()) {
            for (Row row : steps.where(steps.stringColumn("size").isEqualTo(size.label()))) {
                double none = median(numbers, two + ", mode=none, size=" + size.label() + "]");
                Row bar = ratios.appendRow();
                bar.setString("size", size.label());
                bar.setString("mode", row.getString("mode"));
                bar.setDouble("ratio", row.getDouble("median") / none);
            }
        }
        return Charts.bar(ratios)
                .x("size", "size of the model")
                .y("ratio", "step ÷ step without communication")
                .by("mode")
                .rename("bucketed", "bucketed, 100 MB")
                .level(1, "")
                .size(860, 340)
                .figure(
                        "data-parallel-sizes",
                        "Time of a training step on two cards over that without communication, for each size of the model,"
                                + " a bar a mode");
    }

    /**
     * What is left to wait for after the backward pass over the number of messages, as measured and by the model fitted
     * to it.
     */
    public static Figure buckets(MeasurementQuery numbers, String selection) {
        Table points =
                Table.create(DoubleColumn.create("messages"), DoubleColumn.create("ms"), StringColumn.create("series"));
        Map<Double, Seconds> measured = overheads(numbers, selection);
        measured.forEach((messages, overhead) -> point(points, messages, overhead, "measured"));
        BucketModel model = bucketModel(numbers, selection);
        double least = Collections.min(measured.keySet());
        double most = Collections.max(measured.keySet());
        for (int i = 0; i <= CURVE; i++) {
            double messages = least * Math.pow(most / least, (double) i / CURVE);
            point(points, messages, model.overhead(messages), "model");
        }
        return Charts.line(points)
                .x("messages", "all-reduces a step")
                .y("ms", "after the backward pass (ms)")
                .by("series")
                .logX()
                .logY()
                .size(620, 340)
                .figure(
                        "data-parallel-" + selection,
                        "Time that is left to wait for gradients after the backward pass over the number of all-reduces in"
                                + " which they are sent, as measured and as the fitted model has it; both axes"
                                + " logarithmic");
    }

    private static void point(Table points, double messages, Seconds overhead, String series) {
        Row row = points.appendRow();
        row.setDouble("messages", messages);
        row.setDouble("ms", overhead.ms());
        row.setString("series", series);
    }

    /**
     * The model of buckets that fits measurements: B is the backward pass that runs while nothing is sent; numbers of
     * buckets are those that there were.
     *
     * @param selection a name that stands for the measurements of one model on one backend, all modes
     */
    public static BucketModel bucketModel(MeasurementQuery numbers, String selection) {
        double backward = median(numbers, selection + "[mode=none, implementation=plain, metric=backward]");
        double bytes = median(numbers, selection + "[mode=none, implementation=plain, metric=gradient-bytes]");
        return BucketModel.fit(new Bytes(Math.round(bytes)), Seconds.ms(backward), overheads(numbers, selection));
    }

    /** Time after the backward pass by number of messages; the mean where two sizes of buckets make as many. */
    private static Map<Double, Seconds> overheads(MeasurementQuery numbers, String selection) {
        Map<Double, List<Double>> all = new TreeMap<>();
        String sent = selection + "[mode=bucketed, overlapped, implementation=plain, status=ok, metric=%s]";
        Table messages = numbers.select(sent.formatted("messages"));
        for (Row row : numbers.select(sent.formatted("communication"))) {
            double megabytes = number(row, "bucket_mb");
            for (Row count : messages) {
                if (number(count, "bucket_mb") != megabytes) continue;
                all.computeIfAbsent(count.getDouble("median"), n -> new ArrayList<>())
                        .add(row.getDouble("median"));
            }
        }
        Map<Double, Seconds> means = new TreeMap<>();
        all.forEach((n, ms) -> means.put(
                n,
                Seconds.ms(
                        ms.stream().mapToDouble(Double::doubleValue).average().orElseThrow())));
        return means;
    }

    /**
     * A step on all ranks, from their traces {@code <mode>-rank<n>.json.gz} in a folder.
     *
     * @throws IOException if there is no trace of rank 0, or one cannot be read
     */
    public static Figure timeline(Path folder, String mode, int ranks) throws IOException {
        Map<String, Trace> traces = new LinkedHashMap<>();
        for (int rank = 0; rank < ranks; rank++) {
            traces.put("rank " + rank, Trace.read(folder.resolve(mode + "-rank" + rank + ".json.gz")));
        }
        return Timeline.ofRanks(traces)
                .lastStep()
                .levels(1)
                .figure(
                        "data-parallel-" + mode,
                        "What computes and what communicates during one training step on each rank, " + mode);
    }

    private static double median(MeasurementQuery numbers, String selection) {
        return numbers.quantity(selection + ".median").value();
    }

    /** A column of numbers is one of whole ones where all of them are. */
    private static double number(Row row, String column) {
        return ((Number) row.getObject(column)).doubleValue();
    }
}
