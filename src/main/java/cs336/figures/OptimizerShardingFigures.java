package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.charts.Plot;
import cs336.numbers.MeasurementQuery;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * The figures of the chapter on sharding the optimizer, from what {@code cs336 shard} stored. Selections begin with the
 * names {@code shard}, to be defined as the measurements of one machine's first round on one node and two processes,
 * and {@code shardGloo}, those of our own two processes with Gloo.
 */
public final class OptimizerShardingFigures {
    private static final double GB = 1e9;
    private static final String OURS = "shard[implementation=plain, ";
    private static final String MODES = "mode=unsharded, broadcast, all-gather, zero-1";

    private OptimizerShardingFigures() {}

    /** What a rank's memory holds around the first step of the optimizer, a panel a moment, a bar a mode. */
    public static Figure memory(MeasurementQuery numbers, String size) {
        Table parts = Table.create(
                StringColumn.create("moment"),
                StringColumn.create("part"),
                StringColumn.create("mode"),
                DoubleColumn.create("GB"));
        Map<String, String> moments = new LinkedHashMap<>();
        moments.put("init", "after initialisation");
        moments.put("before-step", "before the first step");
        moments.put("after-step", "after the first step");
        moments.forEach((moment, title) -> {
            for (String part : List.of("parameters", "gradients", "optimizer-state", "")) {
                for (String mode : List.of("unsharded", "broadcast", "all-gather")) {
                    Row bar = parts.appendRow();
                    bar.setString("moment", title);
                    bar.setString("part", part.isEmpty() ? "all" : part.replace("optimizer-state", "moments"));
                    bar.setString("mode", mode);
                    String metric = part.isEmpty() ? moment : moment + "-" + part;
                    String selection = OURS + "size=" + size + ", mode=" + mode + ", metric=" + metric + "]";
                    bar.setDouble("GB", numbers.quantity(selection + ".max").value() / GB);
                }
            }
        });
        return named(Charts.bar(parts))
                .x("part", "")
                .y("GB", "in use on the fullest rank (GB)")
                .by("mode")
                .panels("moment")
                .size(980, 360)
                .figure(
                        "sharding-memory",
                        "Memory in use on one of two ranks by what it holds, for the " + size + " model after"
                                + " initialisation, directly before and directly after the first step of the optimizer, with"
                                + " the optimizer whole and in shards");
    }

    /** Time of a step and of its phases, the shortest and the longest, a bar a mode. */
    public static Figure times(MeasurementQuery numbers, String size) {
        Table times = Table.create(
                StringColumn.create("extreme"),
                StringColumn.create("phase"),
                StringColumn.create("mode"),
                DoubleColumn.create("ms"));
        for (String extreme : List.of("min", "max")) {
            for (String phase : List.of("forward", "backward", "gradients", "update", "parameters", "total")) {
                String selection = OURS + "size=" + size + ", " + MODES + ", metric=" + phase + ", status=ok]";
                for (Row row : numbers.select(selection)) {
                    Row bar = times.appendRow();
                    bar.setString("extreme", extreme);
                    bar.setString("phase", phase);
                    bar.setString("mode", row.getString("mode"));
                    bar.setDouble("ms", row.getDouble(extreme));
                }
            }
        }
        return named(Charts.bar(times))
                .x("phase", "")
                .y("ms", "time (ms)")
                .by("mode")
                .panels("extreme")
                .rename("min", "shortest of the steps")
                .rename("max", "longest of the steps")
                .rename("parameters", "params")
                .rename("total", "all")
                .size(980, 380)
                .figure(
                        "sharding-times",
                        "Time of a training step of the " + size + " model on two cards and of its phases, each at its"
                                + " shortest and at its longest, with the optimizer whole and in shards");
    }

    /**
     * Bytes that a rank sends in a step over those of the parameters, which are those of the gradients that are
     * averaged without shards: the least by what was handed over, and as counted.
     */
    public static Figure traffic(MeasurementQuery numbers, String size) {
        Table sent =
                Table.create(StringColumn.create("mode"), StringColumn.create("how"), DoubleColumn.create("times"));
        String cards = OURS + "size=" + size + ", ";
        String gloo = "shardGloo[";
        appendSent(sent, numbers, cards, "least-sent", "least for what was asked for");
        appendSent(sent, numbers, cards, "sent", "NCCL, at a card's NVLinks");
        appendSent(sent, numbers, gloo, "sent", "Gloo, at a process's sockets");
        return named(Charts.bar(sent))
                .x("mode", "")
                .y("times", "sent by a rank ÷ bytes of the parameters")
                .by("how")
                .size(640, 340)
                .figure(
                        "sharding-traffic",
                        "Bytes that one of two ranks sends in a step over the bytes of the parameters, for each mode: the"
                                + " least that its collectives need, what was counted at the NVLinks of a card with NCCL"
                                + " for the " + size + " model, and at the sockets with Gloo for a tiny one");
    }

    private static void appendSent(Table sent, MeasurementQuery numbers, String runs, String metric, String how) {
        double gradients =
                numbers.quantity(runs + "mode=unsharded, metric=handed].mean").value();
        for (Row row : numbers.select(runs + MODES + ", metric=" + metric + ", status=ok]")) {
            Row bar = sent.appendRow();
            bar.setString("mode", row.getString("mode"));
            bar.setString("how", how);
            bar.setDouble("times", row.getDouble("mean") / gradients);
        }
    }

    private static Plot named(Plot plot) {
        return plot.rename("unsharded", "whole optimizer")
                .rename("broadcast", "shards, broadcast")
                .rename("all-gather", "shards, all-gather")
                .rename("zero-1", "ZeRO stage 1");
    }
}
