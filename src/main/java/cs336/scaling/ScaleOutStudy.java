package cs336.scaling;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.numbers.MeasurementQuery;
import cs336.torch.DType;
import cs336.units.Bytes;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * Training steps on many devices, simulated. First those of four cards, foretold from two and held against what was
 * measured; then those of 8 to 16,384, from what one card computes and how two and four communicate.
 *
 * @param numbers measurements of a machine with four cards: all-reduces, and data-parallel steps on two and four
 */
public record ScaleOutStudy(MeasurementQuery numbers) {
    /**
     * Sequences of each device where several were measured, and their length: long enough for a step to be the card's
     * time.
     */
    static final int BATCH = 2;

    static final int CONTEXT = 512;
    private static final DType DTYPE = DType.FLOAT32;
    private static final double MB = 1e6;

    /** Modes without which nothing can be fitted. */
    private static final List<String> NEEDED = List.of("none", "naive", "flat", "bucketed");

    /** Sequences of one card that trains xl by itself, as it was benchmarked. */
    private static final int ALONE_BATCH = 4;

    /** Of each card of {@link #curves} that trains xl. */
    public static final Tokens ALONE_TOKENS = Tokens.of(ALONE_BATCH, CONTEXT);

    private static final String ALONE = "benchmarking_script@h200[size=xl, year=2025, batch=" + ALONE_BATCH
            + ", context=" + CONTEXT + ", dtype=fp32, pass=step, implementation=plain, metric=%s].median";

    private static final Synchronization BUCKETS = Synchronization.buckets(new Bytes(25_000_000));

    /** More devices want fewer collectives. */
    private static final List<Synchronization> LARGER_BUCKETS = Stream.of(100_000_000L, 400_000_000L, 1_600_000_000L)
            .map(bytes -> Synchronization.buckets(new Bytes(bytes)))
            .toList();

    private static final int LARGEST = 16_384;

    /** Of each card of {@link #curves} that trains the large model. */
    public static final Tokens LARGE_TOKENS = new Tokens(4096);

    private static final double LARGE_UTILIZATION = 0.5;

    /** What a step takes on one way of splitting it. */
    private record ScaleOutStrategy(String name, Mesh mesh, Synchronization synchronization) {}

    // ---- held against measurements ----

    /** A cluster and overheads fitted to the steps of one size on two cards. */
    public Calibration calibration(String size) {
        Map<String, Map<String, Double>> steps = steps(size, 2);
        Map<String, Double> alone = steps.get("none 0");
        if (alone == null) {
            throw new IllegalArgumentException("no step of " + size
                    + " without communication was measured on 2 cards at " + BATCH + " × " + CONTEXT + " tokens");
        }
        Map<Synchronization, Seconds> under = new LinkedHashMap<>();
        steps.forEach((way, ms) -> {
            if (!way.startsWith("none")) under.put(synchronization(way), Seconds.ms(ms.get("total")));
        });
        Seconds forward = undisturbed(steps, "forward");
        Seconds backward = undisturbed(steps, "backward");
        Seconds optimizer = undisturbed(steps, "optimizer");
        double between = alone.get("total") / (alone.get("forward") + alone.get("backward") + alone.get("optimizer"));
        var measured = new Calibration.MeasuredSteps(
                ModelSize.parse(size).config(ModelEdition.SPRING_2025, CONTEXT),
                DTYPE,
                2,
                forward,
                backward,
                optimizer,
                forward.plus(backward).plus(optimizer).times(between),
                under);
        return Calibration.fit(Cluster.H200, measuredAllReduces(2), measured);
    }

    /**
     * Of a phase in the three ways in which nothing is sent meanwhile, so that all compute the same, the one in the
     * middle.
     */
    private static Seconds undisturbed(Map<String, Map<String, Double>> steps, String phase) {
        double[] ms = Stream.of("none 0", "naive 0", "flat 0")
                .filter(steps::containsKey)
                .mapToDouble(way -> steps.get(way).get(phase))
                .sorted()
                .toArray();
        return Seconds.ms(ms[ms.length / 2]);
    }

    private List<RingAllReduce.MeasuredAllReduce> measuredAllReduces(int processes) {
        List<RingAllReduce.MeasuredAllReduce> measured = new ArrayList<>();
        for (Row row : numbers.select(
                "distributed_communication_single_node[implementation=java, backend=nccl, nodes=1, processes="
                        + processes + ", metric=queued, status=ok]")) {
            double bytes = Double.parseDouble(String.valueOf(row.getObject("megabytes"))) * MB;
            measured.add(new RingAllReduce.MeasuredAllReduce(
                    processes, new Bytes(Math.round(bytes)), Seconds.ms(row.getDouble("median"))));
        }
        return measured;
    }

    /**
     * Measured and simulated steps of two and four cards, a row for steps that send nothing ({@code none}) and one for
     * each way of summing gradients: {@code size}, {@code processes}, {@code mode}, {@code bucket_mb}, {@code measured}
     * and {@code predicted} in ms, {@code off} in percent of what was measured, {@code fitted} whether the measurement
     * was used for the fit.
     */
    public Table predictions() {
        Table table = Table.create(
                "predictions",
                StringColumn.create("size"),
                IntColumn.create("processes"),
                StringColumn.create("mode"),
                DoubleColumn.create("bucket_mb"),
                DoubleColumn.create("measured"),
                DoubleColumn.create("predicted"),
                DoubleColumn.create("off"),
                StringColumn.create("fitted"));
        for (String size : sizes()) {
            Calibration calibration = calibration(size);
            for (int processes : new int[] {2, 4}) {
                measuredSteps(size, processes).forEach((way, ms) -> {
                    double predicted = predicted(calibration, way, processes).ms();
                    Row row = table.appendRow();
                    row.setString("size", size);
                    row.setInt("processes", processes);
                    row.setString("mode", way.split(" ")[0]);
                    row.setDouble("bucket_mb", megabytes(way));
                    row.setDouble("measured", rounded(ms.get("total")));
                    row.setDouble("predicted", rounded(predicted));
                    row.setDouble("off", rounded(100 * (predicted / ms.get("total") - 1)));
                    row.setString("fitted", processes == 2 ? "yes" : "no");
                });
            }
        }
        return table;
    }

    private static Seconds predicted(Calibration calibration, String way, int processes) {
        if (way.startsWith("none")) return calibration.model().alone();
        return calibration.dataParallel(synchronization(way), processes).time();
    }

    /** The sizes whose steps were measured on two cards in all ways that the fit needs, and on four. */
    public List<String> sizes() {
        return Stream.of(ModelSize.values())
                .map(ModelSize::label)
                .filter(size -> modes(size, 2).containsAll(NEEDED))
                .filter(size -> modes(size, 4).size() > 1)
                .toList();
    }

    private Set<String> modes(String size, int processes) {
        return measuredSteps(size, processes).keySet().stream()
                .map(way -> way.split(" ")[0])
                .collect(Collectors.toSet());
    }

    /**
     * Measured all-reduces of two and four cards beside what the fit to those of two says: {@code processes},
     * {@code megabytes}, {@code measured} and {@code predicted} in ms, {@code off} in percent.
     */
    public Table allReduces() {
        Table table = Table.create(
                "all-reduces",
                IntColumn.create("processes"),
                DoubleColumn.create("megabytes"),
                DoubleColumn.create("measured"),
                DoubleColumn.create("predicted"),
                DoubleColumn.create("off"));
        Cluster fitted = Calibration.network(Cluster.H200, measuredAllReduces(2));
        for (int processes : new int[] {2, 4}) {
            for (RingAllReduce.MeasuredAllReduce measured : measuredAllReduces(processes)) {
                double predicted = fitted.time(
                                Collective.ALL_REDUCE,
                                measured.payload(),
                                fitted.group(processes, 1),
                                Cluster.Algorithm.RING)
                        .ms();
                Row row = table.appendRow();
                row.setInt("processes", processes);
                row.setDouble("megabytes", measured.payload().count() / MB);
                row.setDouble("measured", measured.time().ms());
                row.setDouble("predicted", predicted);
                row.setDouble("off", rounded(100 * (predicted / measured.time().ms() - 1)));
            }
        }
        return table;
    }

    /**
     * What was fitted, a row a fit: {@code from} what, {@code bandwidth} of the link in GB/s, {@code launch} of a
     * collective in µs; and for each size of {@link #sizes} {@code each} collective's own cost in µs, {@code copy} of
     * all gradients into buffers in ms, {@code start} of a collective beside the backward pass in µs, {@code slowdown}
     * in percent.
     */
    public Table fits() {
        Table table = Table.create(
                "fits",
                StringColumn.create("from"),
                DoubleColumn.create("bandwidth"),
                DoubleColumn.create("launch"),
                DoubleColumn.create("each"),
                DoubleColumn.create("copy"),
                DoubleColumn.create("start"),
                DoubleColumn.create("slowdown"));
        append(table, "all-reduces", network());
        for (String size : sizes()) {
            Calibration fit = calibration(size);
            Row row = append(table, size, fit.cluster());
            row.setDouble("each", fit.overheads().eachCollective().us());
            row.setDouble("copy", fit.copying().ms());
            row.setDouble("start", fit.overheads().start().us());
            row.setDouble("slowdown", 100 * fit.overheads().slowdown());
        }
        return table;
    }

    private static Row append(Table table, String from, Cluster cluster) {
        Row row = table.appendRow();
        row.setString("from", from);
        row.setDouble("bandwidth", cluster.within().bandwidth().bytesPerSecond() / 1e9);
        row.setDouble("launch", cluster.launch().us());
        return row;
    }

    /** Fitted to all-reduces of two and of four cards. */
    private Cluster network() {
        List<RingAllReduce.MeasuredAllReduce> all = new ArrayList<>(measuredAllReduces(2));
        all.addAll(measuredAllReduces(4));
        return Calibration.network(Cluster.H200, all);
    }

    private Map<String, Map<String, Double>> measuredSteps(String size, int processes) {
        try {
            return steps(size, processes);
        } catch (IllegalArgumentException noneOfThese) {
            return Map.of();
        }
    }

    /**
     * Medians in ms by metric, of each mode and size of buckets. Rounds are averaged, those that have all modes that a
     * fit needs: a host that was slower in another one would be so for some modes alone.
     */
    private Map<String, Map<String, Double>> steps(String size, int processes) {
        Map<String, Map<String, List<Double>>> all = new TreeMap<>();
        Table rows = numbers.select(
                ("ddp_benchmarking[size=%s, year=2025, batch=%d, context=%d, dtype=%s, backend=nccl, nodes=1, processes=%d,"
                                + " implementation=plain, status=ok]")
                        .formatted(size, BATCH, CONTEXT, DTYPE, processes));
        Set<String> complete = complete(rows);
        for (Row row : rows) {
            if (!complete.contains(round(row))) continue;
            String way = row.getString("mode") + " " + row.getObject("bucket_mb");
            all.computeIfAbsent(way, w -> new TreeMap<>())
                    .computeIfAbsent(row.getString("metric"), m -> new ArrayList<>())
                    .add(row.getDouble("median"));
        }
        Map<String, Map<String, Double>> means = new TreeMap<>(
                Comparator.comparing((String way) -> List.of("none", "naive", "flat", "overlapped", "bucketed")
                                .indexOf(way.split(" ")[0]))
                        .thenComparing(ScaleOutStudy::megabytes));
        all.forEach((way, metrics) -> {
            Map<String, Double> mean = new TreeMap<>();
            metrics.forEach((metric, values) -> mean.put(
                    metric, values.stream().mapToDouble(v -> v).average().orElseThrow()));
            means.put(way, mean);
        });
        return means;
    }

    private static Set<String> complete(Table rows) {
        Map<String, Set<String>> modes = new TreeMap<>();
        for (Row row : rows) {
            modes.computeIfAbsent(round(row), r -> new TreeSet<>()).add(row.getString("mode"));
        }
        modes.values().removeIf(of -> !of.containsAll(NEEDED));
        return modes.keySet();
    }

    private static String round(Row row) {
        return String.valueOf(row.getObject("round"));
    }

    /** To a thousandth: what is below tells nothing. */
    private static double rounded(double value) {
        return Math.rint(1e3 * value) / 1e3;
    }

    private static Synchronization synchronization(String way) {
        return switch (way.split(" ")[0]) {
            case "naive" -> Synchronization.each();
            case "flat" -> Synchronization.flat();
            case "overlapped" -> Synchronization.overlapped();
            default -> Synchronization.buckets(new Bytes(Math.round(megabytes(way) * MB)));
        };
    }

    private static double megabytes(String way) {
        return Double.parseDouble(way.split(" ")[1]);
    }

    // ---- beyond measurements ----

    /**
     * Steps of 8 to 16,384 cards whose work a card stays the same: {@code model}, {@code strategy}, {@code devices},
     * {@code step} in ms, {@code useful}, the percentage of it that forward and backward pass take by themselves. Two
     * models: xl in fp32 as it was benchmarked on one card, with {@value #ALONE_BATCH} sequences of {@value #CONTEXT}
     * tokens; and {@link ModelShape#XXL} in bf16 with {@value #LARGE_UTILIZATION} of the peak and 4,096 tokens a card,
     * only where a card's memory holds its share. Buckets have 25, 100, 400 or 1,600 MB, whichever takes least.
     */
    public Table curves() {
        Table table = Table.create(
                "curves",
                StringColumn.create("model"),
                StringColumn.create("strategy"),
                IntColumn.create("devices"),
                DoubleColumn.create("step"),
                DoubleColumn.create("useful"));
        Calibration xl = oneCard();
        for (int n = 8; n <= LARGEST; n *= 2) {
            for (ScaleOutStrategy way : ways(n)) {
                Tokens ofGroup = ALONE_TOKENS.times(way.mesh.tensor());
                append(table, "xl", way, best(xl, way, ofGroup));
            }
        }
        Calibration large = large(xl);
        for (int n = 8; n <= LARGEST; n *= 2) {
            for (ScaleOutStrategy way : largeWays(n)) {
                Tokens ofGroup = LARGE_TOKENS.times(way.mesh.tensor());
                var memory = new DeviceMemory(ModelShape.XXL, TrainingState.MIXED, way.mesh, ofGroup);
                if (memory.total().compareTo(Accelerator.H200.memory()) <= 0) {
                    append(table, "XXL", way, best(large, way, ofGroup));
                }
            }
        }
        return table;
    }

    private static SimulatedStep best(Calibration calibration, ScaleOutStrategy way, Tokens tokens) {
        SimulatedStep step = calibration.step(way.mesh, way.synchronization, tokens);
        boolean inBuckets = way.synchronization.equals(BUCKETS)
                && !(way.mesh.shards() > 1 && way.mesh.stage() == ZeroStage.PARAMETERS);
        if (!inBuckets) return step;
        return Stream.concat(
                        Stream.of(step),
                        LARGER_BUCKETS.stream().map(buckets -> calibration.step(way.mesh, buckets, tokens)))
                .min(Comparator.comparing(SimulatedStep::time))
                .orElseThrow();
    }

    /** xl as one card computes it, on the network that two and four cards showed, and nothing lost beside it. */
    private Calibration oneCard() {
        var config = ModelSize.XL.config(ModelEdition.SPRING_2025, CONTEXT);
        var model = StepModel.of(config, alone("forward"), alone("backward"), alone("optimizer"));
        return new Calibration(model, network(), Overheads.NONE, DTYPE);
    }

    private Seconds alone(String metric) {
        return Seconds.ms(numbers.quantity(ALONE.formatted(metric)).value());
    }

    /** The large model on the same cluster: the optimizer takes as long for each parameter as was measured. */
    private static Calibration large(Calibration xl) {
        double perParameter = xl.model().optimizer().value() / xl.model().parameters();
        var model = StepModel.feedForward(
                ModelShape.XXL,
                LARGE_TOKENS,
                Accelerator.H200,
                LARGE_UTILIZATION,
                new Seconds(perParameter * ModelShape.XXL.parameters()));
        return new Calibration(model, xl.cluster(), xl.overheads(), TrainingState.MIXED.sent());
    }

    private static List<ScaleOutStrategy> ways(int n) {
        Mesh one = Mesh.single();
        List<ScaleOutStrategy> ways = new ArrayList<>();
        ways.add(new ScaleOutStrategy("ddp-flat", one.withData(n), Synchronization.flat()));
        ways.add(new ScaleOutStrategy("ddp", one.withData(n), BUCKETS));
        ways.add(new ScaleOutStrategy("zero-1", one.withShards(n, ZeroStage.OPTIMIZER_STATE), BUCKETS));
        ways.add(new ScaleOutStrategy("fsdp", one.withShards(n, ZeroStage.PARAMETERS), BUCKETS));
        ways.add(new ScaleOutStrategy("hsdp", one.withData(n / 8).withShards(8, ZeroStage.PARAMETERS), BUCKETS));
        ways.add(new ScaleOutStrategy("tp-ddp", one.withData(n / 8).withTensor(8), BUCKETS));
        return ways;
    }

    private static List<ScaleOutStrategy> largeWays(int n) {
        Mesh one = Mesh.single();
        List<ScaleOutStrategy> ways = new ArrayList<>();
        ways.add(new ScaleOutStrategy("fsdp", one.withShards(n, ZeroStage.PARAMETERS), BUCKETS));
        if (n >= 128) {
            ways.add(new ScaleOutStrategy("hsdp", one.withData(n / 64).withShards(64, ZeroStage.PARAMETERS), BUCKETS));
            ways.add(new ScaleOutStrategy(
                    "fsdp-tp", one.withShards(n / 8, ZeroStage.PARAMETERS).withTensor(8), BUCKETS));
            ways.add(new ScaleOutStrategy(
                    "hsdp-tp",
                    one.withData(n / 128).withShards(16, ZeroStage.PARAMETERS).withTensor(8),
                    BUCKETS));
        }
        return ways;
    }

    private static void append(Table table, String model, ScaleOutStrategy way, SimulatedStep step) {
        double ms = step.time().ms();
        Row row = table.appendRow();
        row.setString("model", model);
        row.setString("strategy", way.name);
        row.setInt("devices", (int) way.mesh.devices());
        row.setDouble("step", ms);
        row.setDouble("useful", 100 * step.model().passes().ms() / ms);
    }
}
