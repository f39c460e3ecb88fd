package cs336.figures;

import static cs336.units.UnitFactors.GB;
import static cs336.units.UnitFactors.MB;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.charts.Plot;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.scaling.Accelerator;
import cs336.scaling.RingAllReduce;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * The figures of the chapter on collectives, from measurements of {@code cs336 allreduce} and
 * {@code peers/allreduce.py}.
 */
public final class CollectiveFigures {
    private static final String ONE_NODE = "distributed_communication_single_node@h200-x4";
    private static final String EMULATED = "distributed_communication_multi_node@h200-x4";
    private static final String SLURM = "distributed_communication_multi_node@slurm-2-nodes-emulated";
    private static final Bandwidth LINK = Accelerator.H200.link();
    private static final String PANEL = "panel";
    private static final String SERIES = "series";

    /** A point of a chart over message size; {@code value} is a time or a bandwidth. */
    private record AllReducePoint(double megabytes, double value, String series, String panel) {
        /** Returns the median time of a row in milliseconds. */
        static AllReducePoint time(Row row, String series) {
            return new AllReducePoint(
                    row.getNumber("megabytes"), row.getDouble("median"), series, ranks(row) + " GPUs");
        }

        /** Returns the bus bandwidth of a row's median time. */
        static AllReducePoint bandwidth(Row row, String series) {
            return bandwidth(ranks(row), row.getNumber("megabytes"), Seconds.ms(row.getDouble("median")), series);
        }

        /** Returns the bus bandwidth in GB/s. */
        static AllReducePoint bandwidth(int ranks, double megabytes, Seconds time, String series) {
            double value = RingAllReduce.sent(ranks) * megabytes * MB / time.value() / GB;
            return new AllReducePoint(megabytes, value, series, ranks + " GPUs");
        }
    }

    private CollectiveFigures() {}

    /** Plots the time by message size: one panel per backend and device, one line per number of processes. */
    public static Figure times(MeasurementQuery numbers) {
        Table rows = numbers.select(ONE_NODE + "[implementation=java, status=ok, metric=time]")
                .sortOn("backend", "on", "processes", "megabytes");
        rows = labelled(rows, SERIES, row -> ranks(row) + " processes");
        return overSize(labelled(rows, PANEL, CollectiveFigures::place))
                .y("median", "time (ms)")
                .by(SERIES)
                .panels(PANEL)
                .logY()
                .size(900, 380)
                .figure(
                        "allreduce-times",
                        "Time of an all-reduce over the size of the message on each rank, for each backend and device, a line for"
                                + " each number of processes");
    }

    /**
     * Plots NCCL's bus bandwidth by message size on two and four GPUs, back to back, with the fitted ring model and the
     * data sheet's bandwidth of the NVLinks.
     */
    public static Figure throughput(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var points = new ArrayList<AllReducePoint>();
        for (Row row : rows(numbers, ONE_NODE, "backend=nccl", "queued")) {
            points.add(AllReducePoint.bandwidth(row, ranks(row) + " GPUs, measured"));
        }
        for (int ranks : ranks(numbers)) {
            RingAllReduce ring = ring(numbers, ranks);
            for (double megabytes = 0.5; megabytes < 1100; megabytes *= Math.sqrt(2)) {
                Seconds time = ring.time(ranks, bytes(megabytes));
                points.add(AllReducePoint.bandwidth(ranks, megabytes, time, ranks + " GPUs, ring model"));
            }
        }
        return overSize(Tables.of(AllReducePoint.class, points))
                .y("value", "bus bandwidth (GB/s)")
                .by(SERIES)
                .level(LINK.gb(), "NVLink, data sheet")
                .size(760, 400)
                .origin(numbers.origin())
                .figure(
                        "allreduce-throughput",
                        "Bus bandwidth of NCCL's all-reduce by message size on two and four GPUs, back to back, with the ring"
                                + " whose latency and bandwidth fit best and the data sheet's bandwidth of a GPU's NVLinks"
                                + " in one direction");
    }

    /** Plots the time of Gloo's all-reduce on one Slurm node and on two, emulated as namespaces of one machine. */
    public static Figure slurmNodes(MeasurementQuery numbers) {
        Table all = labelled(
                rows(numbers, SLURM, "backend=gloo"),
                SERIES,
                row -> row.getInt("nodes") == 1 ? "1 node" : "2 nodes, emulated");
        return overSize(labelled(all, PANEL, row -> ranks(row) + " processes"))
                .y("median", "time (ms)")
                .by(SERIES)
                .panels(PANEL)
                .logY()
                .size(980, 340)
                .figure(
                        "allreduce-slurm-nodes",
                        "Time of Gloo's all-reduce over the size of the message among processes of one Slurm node and of two"
                                + " nodes with half of them each, both of them namespaces on one machine");
    }

    /** Plots the time of NCCL's all-reduce on one node over NVLink and on two emulated nodes over sockets. */
    public static Figure emulatedNodes(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var points = new ArrayList<AllReducePoint>();
        for (Row row : rows(numbers, ONE_NODE, "backend=nccl")) {
            points.add(AllReducePoint.time(row, "1 node: NVLink"));
        }
        for (Row row : rows(numbers, EMULATED, "backend=nccl")) {
            points.add(AllReducePoint.time(row, row.getInt("nodes") + " emulated nodes: sockets"));
        }
        return overSize(Tables.of(AllReducePoint.class, points))
                .y("value", "time (ms)")
                .by(SERIES)
                .panels(PANEL)
                .logY()
                .size(900, 340)
                .origin(numbers.origin())
                .figure(
                        "allreduce-emulated-nodes",
                        "Time of NCCL's all-reduce over the size of the message among the GPUs of one node over NVLink, and"
                                + " among the same GPUs over TCP sockets, as on two nodes");
    }

    /** Returns the ring model fitted to NCCL's back-to-back all-reduces on this number of GPUs. */
    public static RingAllReduce ring(MeasurementQuery numbers, int ranks) {
        var measured = new ArrayList<RingAllReduce.MeasuredAllReduce>();
        for (Row row : rows(numbers, ONE_NODE, "backend=nccl, processes=" + ranks, "queued")) {
            measured.add(new RingAllReduce.MeasuredAllReduce(
                    ranks, bytes(row.getNumber("megabytes")), Seconds.ms(row.getDouble("median"))));
        }
        return RingAllReduce.fit(measured);
    }

    private static Bytes bytes(double megabytes) {
        return new Bytes(Math.round(megabytes * MB));
    }

    private static List<Integer> ranks(MeasurementQuery numbers) {
        return rows(numbers, ONE_NODE, "backend=nccl")
                .intColumn("processes")
                .unique()
                .asList();
    }

    private static Table rows(MeasurementQuery numbers, String file, String where) {
        return rows(numbers, file, where, "time");
    }

    private static Table rows(MeasurementQuery numbers, String file, String where, String metric) {
        return numbers.select("%s[implementation=java, status=ok, metric=%s, %s]".formatted(file, metric, where))
                .sortOn("processes", "nodes", "megabytes");
    }

    private static int ranks(Row row) {
        return row.getInt("processes");
    }

    private static String place(Row row) {
        String backend = row.getString("backend").equals("nccl") ? "NCCL" : "Gloo";
        return backend + (row.getString("on").equals("cuda") ? ", GPUs" : ", CPU");
    }

    private static Table labelled(Table rows, String column, Function<Row, String> label) {
        StringColumn labels = StringColumn.create(column);
        for (Row row : rows) {
            labels.append(label.apply(row));
        }
        return rows.copy().addColumns(labels);
    }

    private static Plot overSize(Table rows) {
        return Charts.line(rows).x("megabytes", "message (MB)").logX();
    }
}
