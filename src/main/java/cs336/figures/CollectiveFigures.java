package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.charts.Plot;
import cs336.numbers.MeasurementQuery;
import cs336.scaling.RingAllReduce;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.ArrayList;
import java.util.List;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** The figures of the chapter on collectives, from what {@code cs336 allreduce} and its peer stored. */
public final class CollectiveFigures {
    private static final String ONE_NODE = "distributed_communication_single_node@h200-x4";
    private static final String EMULATED = "distributed_communication_multi_node@h200-x4";
    private static final String SLURM = "distributed_communication_multi_node@slurm-2-nodes-emulated";
    private static final String SHOWN = "shown";
    private static final String SERIES = "series";
    private static final double MB = 1e6;
    private static final double GB = 1e9;

    private CollectiveFigures() {}

    /** Time over size, a panel for each backend and device, a line for each number of processes. */
    public static Figure times(MeasurementQuery numbers) {
        Table rows = numbers.select(ONE_NODE + "[implementation=java, status=ok, metric=time]")
                .sortOn("backend", "on", "processes", "megabytes");
        rows = labelled(rows, SERIES, row -> ranks(row) + " processes");
        return overSize(labelled(rows, SHOWN, CollectiveFigures::place))
                .y("median", "time (ms)")
                .by(SERIES)
                .panels(SHOWN)
                .logY()
                .size(900, 380)
                .figure(
                        "allreduce-times",
                        "Time of an all-reduce over the size of the message on each rank, for each backend and device, a line for"
                                + " each number of processes");
    }

    /**
     * Bus bandwidth of NCCL over size beside the ring that fits it and the links' own bandwidth, a panel a number of
     * cards.
     */
    public static Figure throughput(MeasurementQuery numbers) {
        Table points = Table.create(
                DoubleColumn.create("megabytes"),
                DoubleColumn.create("bandwidth"),
                StringColumn.create(SERIES),
                StringColumn.create(SHOWN));
        for (Row row : rows(numbers, ONE_NODE, "java", "backend=nccl", "time")) add(points, row, "one by one");
        for (Row row : rows(numbers, ONE_NODE, "java", "backend=nccl", "queued")) add(points, row, "queued");
        for (Row row : rows(numbers, ONE_NODE, "python", "backend=nccl", "queued")) add(points, row, "queued, Python");
        for (int ranks : ranks(numbers)) {
            RingAllReduce ring = ring(numbers, ranks);
            for (double megabytes = 0.5; megabytes < 1100; megabytes *= Math.sqrt(2)) {
                add(points, ranks, megabytes, ring.time(ranks, bytes(megabytes)), "ring, fitted");
            }
        }
        return overSize(points)
                .y("bandwidth", "bus bandwidth (GB/s)")
                .by(SERIES)
                .panels(SHOWN)
                .level(linkBandwidth(numbers).gb(), "the links")
                .size(900, 380)
                .figure(
                        "allreduce-throughput",
                        "Bus bandwidth of NCCL's all-reduce over the size of the message, one by one and queued, from Java and"
                                + " from Python, with the ring whose latency and bandwidth fit best and the bandwidth of a"
                                + " card's NVLinks in one direction");
    }

    /** Time of Gloo's all-reduce in one Slurm node and over two, which are namespaces of one machine. */
    public static Figure slurmNodes(MeasurementQuery numbers) {
        Table all = labelled(
                rows(numbers, SLURM, "java", "backend=gloo"),
                SERIES,
                row -> row.getInt("nodes") == 1 ? "1 node" : "2 nodes, emulated");
        return overSize(labelled(all, SHOWN, row -> ranks(row) + " processes"))
                .y("median", "time (ms)")
                .by(SERIES)
                .panels(SHOWN)
                .logY()
                .size(980, 340)
                .figure(
                        "allreduce-slurm-nodes",
                        "Time of Gloo's all-reduce over the size of the message among processes of one Slurm node and of two"
                                + " nodes with half of them each, both of them namespaces on one machine");
    }

    /**
     * Time of NCCL's all-reduce on one node, over NVLink, and over two emulated ones, between which it takes sockets.
     */
    public static Figure emulatedNodes(MeasurementQuery numbers) {
        Table points = Table.create(
                DoubleColumn.create("megabytes"),
                DoubleColumn.create("median"),
                StringColumn.create(SERIES),
                StringColumn.create(SHOWN));
        for (Row row : rows(numbers, ONE_NODE, "java", "backend=nccl")) addTime(points, row, "1 node: NVLink");
        for (Row row : rows(numbers, EMULATED, "java", "backend=nccl")) {
            addTime(points, row, row.getInt("nodes") + " emulated nodes: sockets");
        }
        return overSize(points)
                .y("median", "time (ms)")
                .by(SERIES)
                .panels(SHOWN)
                .logY()
                .size(900, 340)
                .figure(
                        "allreduce-emulated-nodes",
                        "Time of NCCL's all-reduce over the size of the message among GPUs that know they are on one node and"
                                + " among GPUs of one node that were told they are on two");
    }

    private static void addTime(Table points, Row row, String series) {
        Row point = points.appendRow();
        point.setDouble("megabytes", row.getNumber("megabytes"));
        point.setDouble("median", row.getDouble("median"));
        point.setString(SERIES, series);
        point.setString(SHOWN, ranks(row) + " GPUs");
    }

    /** The ring that fits NCCL's queued all-reduces of so many cards. */
    public static RingAllReduce ring(MeasurementQuery numbers, int ranks) {
        var measured = new ArrayList<RingAllReduce.MeasuredAllReduce>();
        for (Row row : rows(numbers, ONE_NODE, "java", "backend=nccl, processes=" + ranks, "queued")) {
            measured.add(new RingAllReduce.MeasuredAllReduce(
                    ranks, bytes(row.getNumber("megabytes")), Seconds.ms(row.getDouble("median"))));
        }
        return RingAllReduce.fit(measured);
    }

    private static Bytes bytes(double megabytes) {
        return new Bytes(Math.round(megabytes * MB));
    }

    /** What a card's NVLinks carry in one direction, by {@code nvidia-smi}. */
    public static Bandwidth linkBandwidth(MeasurementQuery numbers) {
        return Bandwidth.gb(numbers.select("link_topology@h200-x4[from=0, to=1, metric=nvlink-bandwidth]")
                .row(0)
                .getDouble("median"));
    }

    private static List<Integer> ranks(MeasurementQuery numbers) {
        return rows(numbers, ONE_NODE, "java", "backend=nccl")
                .intColumn("processes")
                .unique()
                .asList();
    }

    private static Table rows(MeasurementQuery numbers, String file, String implementation, String where) {
        return rows(numbers, file, implementation, where, "time");
    }

    private static Table rows(
            MeasurementQuery numbers, String file, String implementation, String where, String metric) {
        return numbers.select("%s[implementation=%s, status=ok, metric=%s, %s]"
                        .formatted(file, implementation, metric, where))
                .sortOn("processes", "nodes", "megabytes");
    }

    private static void add(Table points, Row row, String series) {
        add(points, row.getInt("processes"), row.getNumber("megabytes"), Seconds.ms(row.getDouble("median")), series);
    }

    private static void add(Table points, int ranks, double megabytes, Seconds time, String series) {
        Row point = points.appendRow();
        point.setDouble("megabytes", megabytes);
        point.setDouble("bandwidth", RingAllReduce.sent(ranks) * megabytes * MB / time.value() / GB);
        point.setString(SERIES, series);
        point.setString(SHOWN, ranks + " GPUs");
    }

    private static int ranks(Row row) {
        return row.getInt("processes");
    }

    private static String place(Row row) {
        String backend = row.getString("backend").equals("nccl") ? "NCCL" : "Gloo";
        return backend + (row.getString("on").equals("cuda") ? ", GPUs" : ", CPU");
    }

    private interface Label {
        String of(Row row);
    }

    private static Table labelled(Table rows, String column, Label label) {
        StringColumn labels = StringColumn.create(column);
        for (Row row : rows) labels.append(label.of(row));
        return rows.copy().addColumns(labels);
    }

    private static Plot overSize(Table rows) {
        return Charts.line(rows).x("megabytes", "message (MB)").logX();
    }
}
