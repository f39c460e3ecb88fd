package cs336.figures;

import static cs336.units.UnitFactors.GB;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.charts.Plot;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.Row;

/**
 * The figures of the chapter on optimizer state sharding, from measurements of {@code cs336 shard}. They expect that
 * the query defines {@code shard} as the first round's measurements of one machine on one node with two processes, and
 * {@code shardGloo} as this project's measurements of two processes with Gloo.
 */
public final class OptimizerShardingFigures {
    private static final String OURS = "shard[implementation=plain, ";
    private static final String MODES = "mode=unsharded, broadcast, all-gather, zero-1";

    private OptimizerShardingFigures() {}

    /** A bar: the memory of a category at a point in the step. */
    private record ShardMemoryBar(String point, String category, String mode, double gb) {}

    /** A bar: the shortest or longest time of a phase. */
    private record ShardTimeBar(String extreme, String phase, String mode, double ms) {}

    /** A bar: bytes that a rank sends per step, divided by the bytes of the parameters. */
    private record SentBytesBar(String mode, String series, double ratio) {}

    /** Plots a rank's memory by category around the first optimizer step: one panel per point in the step. */
    public static Figure memory(MeasurementQuery measurements, String size) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var bars = new ArrayList<ShardMemoryBar>();
        Map<String, String> points = new LinkedHashMap<>();
        points.put("init", "after initialization");
        points.put("before-step", "before the first step");
        points.put("after-step", "after the first step");
        points.forEach((point, title) -> {
            for (String category : List.of("parameters", "gradients", "optimizer-state", "")) {
                for (String mode : List.of("unsharded", "broadcast", "all-gather")) {
                    String label = category.isEmpty() ? "all" : category.replace("optimizer-state", "moments");
                    String metric = category.isEmpty() ? point : point + "-" + category;
                    String selection = OURS + "size=" + size + ", mode=" + mode + ", metric=" + metric + "]";
                    double bytes = numbers.quantity(selection + ".max").value();
                    bars.add(new ShardMemoryBar(title, label, mode, bytes / GB));
                }
            }
        });
        return named(Charts.bar(Tables.of(ShardMemoryBar.class, bars)))
                .x("category", "")
                .y("gb", "in use on the fullest rank (GB)")
                .by("mode")
                .panels("point")
                .size(980, 360)
                .origin(numbers.origin())
                .figure(
                        "sharding-memory",
                        "Memory in use on one of two ranks by what it holds, for the " + size + " model after"
                                + " initialization, directly before and directly after the first step of the optimizer, with"
                                + " the optimizer state unsharded and sharded");
    }

    /** Plots the shortest and longest times of a step and its phases, one bar per mode. */
    public static Figure times(MeasurementQuery measurements, String size) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var bars = new ArrayList<ShardTimeBar>();
        for (String extreme : List.of("min", "max")) {
            for (String phase : List.of("forward", "backward", "gradients", "update", "parameters", "total")) {
                String selection = OURS + "size=" + size + ", " + MODES + ", metric=" + phase + ", status=ok]";
                for (Row row : numbers.select(selection)) {
                    bars.add(new ShardTimeBar(extreme, phase, row.getString("mode"), row.getDouble(extreme)));
                }
            }
        }
        return named(Charts.bar(Tables.of(ShardTimeBar.class, bars)))
                .x("phase", "")
                .y("ms", "time (ms)")
                .by("mode")
                .panels("extreme")
                .rename("min", "shortest of the steps")
                .rename("max", "longest of the steps")
                .rename("total", "step")
                .size(980, 380)
                .origin(numbers.origin())
                .figure(
                        "sharding-times",
                        "Time of a training step of the " + size + " model on two GPUs and of its phases, each at its"
                                + " shortest and at its longest, with the optimizer state unsharded and sharded");
    }

    /**
     * Plots the bytes that a rank sends per step, divided by the bytes of the parameters: the minimum for its
     * collectives, and the bytes counted by the NVLinks or sockets.
     */
    public static Figure traffic(MeasurementQuery measurements, String size) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var bars = new ArrayList<SentBytesBar>();
        String nccl = OURS + "size=" + size + ", ";
        String gloo = "shardGloo[";
        bars.addAll(sent(numbers, nccl, "least-sent", "minimum for its collectives"));
        bars.addAll(sent(numbers, nccl, "sent", "NCCL, at a GPU's NVLinks"));
        bars.addAll(sent(numbers, gloo, "sent", "Gloo, at a process's sockets"));
        return named(Charts.bar(Tables.of(SentBytesBar.class, bars)))
                .x("mode", "")
                .y("ratio", "sent by a rank ÷ bytes of the parameters")
                .by("series")
                .size(640, 340)
                .origin(numbers.origin())
                .figure(
                        "sharding-traffic",
                        "Bytes that one of two ranks sends in a step over the bytes of the parameters, for each mode: the"
                                + " minimum that its collectives need, what was counted at the NVLinks of a GPU with NCCL"
                                + " for the " + size + " model, and at the sockets with Gloo for a tiny one");
    }

    /**
     * Returns sent bytes relative to the parameters, which are as large as the gradients that an unsharded step
     * averages once.
     */
    private static List<SentBytesBar> sent(MeasurementQuery numbers, String runs, String metric, String series) {
        double gradients =
                numbers.quantity(runs + "mode=unsharded, metric=handed].mean").value();
        var bars = new ArrayList<SentBytesBar>();
        for (Row row : numbers.select(runs + MODES + ", metric=" + metric + ", status=ok]")) {
            bars.add(new SentBytesBar(row.getString("mode"), series, row.getDouble("mean") / gradients));
        }
        return bars;
    }

    private static Plot named(Plot plot) {
        return plot.rename("unsharded", "unsharded")
                .rename("broadcast", "sharded, broadcast")
                .rename("all-gather", "sharded, all-gather")
                .rename("zero-1", "ZeRO stage 1");
    }
}
