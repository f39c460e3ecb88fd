package cs336.scaling;

import static cs336.units.UnitFactors.MB;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.numbers.Header;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.torch.DType;
import cs336.units.Bytes;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

/**
 * Simulated training steps on many devices. Steps on four GPUs are predicted from measurements on two and compared with
 * measurements; steps on 8 to 16,384 GPUs are predicted from the compute time of one GPU and the all-reduces of two and
 * four.
 *
 * @param numbers measurements of a machine with four GPUs: all-reduces, and data-parallel steps on two and four
 */
public record ScaleOutStudy(MeasurementQuery numbers) {
    /** Sequences of each GPU in the data-parallel measurements. */
    static final int BATCH = 2;

    /** Tokens of a sequence, enough for the steps to be GPU-bound. */
    static final int CONTEXT = 512;

    private static final DType DTYPE = DType.FLOAT32;

    /** Modes of gradient synchronization without which the overheads cannot be fitted. */
    private static final List<String> NEEDED = List.of("none", "naive", "flat", "bucketed");

    /** All modes, in the order of tables. */
    private static final List<String> MODES = List.of("none", "naive", "flat", "overlapped", "bucketed");

    /** Sequences in the benchmark of xl on one GPU. */
    private static final int ALONE_BATCH = 4;

    /** Tokens of each GPU that trains xl in {@link #curves}. */
    public static final Tokens ALONE_TOKENS = Tokens.of(ALONE_BATCH, CONTEXT);

    private static final String ALONE = "benchmarking_script@h200[size=xl, year=2025, batch=" + ALONE_BATCH
            + ", context=" + CONTEXT + ", dtype=fp32, pass=step, implementation=plain, metric=%s].median";

    private static final Synchronization BUCKETS = Synchronization.buckets(new Bytes(25_000_000));

    /** Larger buckets, which need fewer collectives and are better on many devices. */
    private static final List<Synchronization> LARGER_BUCKETS = Stream.of(100_000_000L, 400_000_000L, 1_600_000_000L)
            .map(bytes -> Synchronization.buckets(new Bytes(bytes)))
            .toList();

    private static final int LARGEST = 16_384;

    /** Tokens of each GPU that trains the XXL model in {@link #curves}. */
    public static final Tokens LARGE_TOKENS = new Tokens(4096);

    private static final double LARGE_UTILIZATION = 0.5;

    /** A combination of data, sharded and tensor parallelism on a number of devices. */
    private record ScaleOutStrategy(String name, Mesh mesh, Synchronization synchronization) {}

    /**
     * A measured step of data-parallel training and its simulation.
     *
     * @param size size of the model
     * @param processes number of GPUs
     * @param mode mode of gradient synchronization; {@code none} sends nothing
     * @param bucketMb size of the buckets in MB; 0 for other modes
     * @param measured time in ms
     * @param predicted time in ms
     * @param error error of the prediction in percent of the measured time
     * @param fitted {@code yes} if the measurement was used for the fit, else {@code no}
     */
    public record PredictedStep(
            String size,
            int processes,
            String mode,
            @Header("bucket (MB)") double bucketMb,
            @Header("measured (ms)") double measured,
            @Header("predicted (ms)") double predicted,
            @Header("error (%)") double error,
            @Header("used in fit") String fitted) {}

    /**
     * A measured all-reduce and its prediction.
     *
     * @param processes number of GPUs
     * @param megabytes payload in MB
     * @param measured time in ms
     * @param predicted time in ms
     * @param error error of the prediction in percent of the measured time
     */
    public record PredictedAllReduce(
            int processes,
            @Header("payload (MB)") double megabytes,
            @Header("measured (ms)") double measured,
            @Header("predicted (ms)") double predicted,
            @Header("error (%)") double error) {}

    /**
     * Fitted numbers of the network and, if the fit is to steps, the overheads of a step.
     *
     * @param from the measurements: {@code all-reduces}, or the steps of a model size
     * @param bandwidth bandwidth of a link in GB/s
     * @param launch launch overhead of a collective in µs
     * @param each fixed time of each of several consecutive collectives in µs
     * @param copy time to copy all gradients into buffers in ms
     * @param start time in µs that the backward pass waits for the start of a collective
     * @param slowdown slowdown of computation during a collective in percent
     */
    public record FittedNumbers(
            @Header("fitted to") String from,
            @Header("link bandwidth (GB/s)") double bandwidth,
            @Header("launch (µs)") double launch,
            @Header("each collective (µs)") Double each,
            @Header("copy (ms)") Double copy,
            @Header("start (µs)") Double start,
            @Header("slowdown (%)") Double slowdown) {}

    /**
     * A simulated step on many devices.
     *
     * @param model name of the model
     * @param strategy strategy of parallelism
     * @param devices number of devices
     * @param step time in ms
     * @param useful time of forward and backward pass without communication, in percent of the step
     */
    public record ScaleOutPoint(
            String model,
            String strategy,
            int devices,
            @Header("step (ms)") double step,
            @Header("forward and backward (%)") double useful) {}

    // ---- compared with measurements ----

    /** A strategy and its bucket size in MB, 0 for strategies without buckets. */
    private record ModeKey(String mode, double bucketMb) {
        Synchronization synchronization() {
            return switch (mode) {
                case "naive" -> Synchronization.each();
                case "flat" -> Synchronization.flat();
                case "overlapped" -> Synchronization.overlapped();
                default -> Synchronization.buckets(new Bytes(Math.round(bucketMb * MB)));
            };
        }
    }

    /**
     * Returns the cluster and the overheads fitted to the steps of one model size on two GPUs.
     *
     * @throws IllegalArgumentException if a measurement that the fit needs is missing
     */
    public Calibration calibration(String size) {
        Map<ModeKey, Map<String, Double>> steps = steps(size, 2);
        Map<String, Double> alone = steps.get(new ModeKey("none", 0));
        if (alone == null) {
            throw new IllegalArgumentException("size must have a measured step without communication on 2 GPUs (batch "
                    + BATCH + ", context " + CONTEXT + "); " + size + " has none");
        }
        Map<Synchronization, Seconds> synchronizedSteps = new LinkedHashMap<>();
        steps.forEach((key, ms) -> {
            if (!key.mode.equals("none")) {
                synchronizedSteps.put(key.synchronization(), Seconds.ms(ms.get("total")));
            }
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
                synchronizedSteps);
        return Calibration.fit(Cluster.H200, measuredAllReduces(2), measured);
    }

    /** Returns the median time of a phase over the modes that send nothing during it. */
    private static Seconds undisturbed(Map<ModeKey, Map<String, Double>> steps, String phase) {
        double[] ms = Stream.of("none", "naive", "flat")
                .map(mode -> new ModeKey(mode, 0))
                .filter(steps::containsKey)
                .mapToDouble(key -> steps.get(key).get(phase))
                .sorted()
                .toArray();
        return Seconds.ms(ms[ms.length / 2]);
    }

    private List<RingAllReduce.MeasuredAllReduce> measuredAllReduces(int processes) {
        List<RingAllReduce.MeasuredAllReduce> measured = new ArrayList<>();
        for (Row row : numbers.selectWithNumbers(
                "distributed_communication_single_node[implementation=java, backend=nccl, nodes=1, processes="
                        + processes + ", metric=queued, status=ok]",
                "megabytes")) {
            double bytes = Double.parseDouble(String.valueOf(row.getObject("megabytes"))) * MB;
            measured.add(new RingAllReduce.MeasuredAllReduce(
                    processes, new Bytes(Math.round(bytes)), Seconds.ms(row.getDouble("median"))));
        }
        return measured;
    }

    /** Returns {@link #predictedSteps} as a table. */
    public Table predictions() {
        return Tables.of(PredictedStep.class, predictedSteps()).setName("predictions");
    }

    /** Returns measured and simulated steps on two and four GPUs, for each mode of gradient synchronization. */
    public List<PredictedStep> predictedSteps() {
        List<PredictedStep> predicted = new ArrayList<>();
        for (String size : sizes()) {
            Calibration calibration = calibration(size);
            for (int processes : new int[] {2, 4}) {
                measuredSteps(size, processes).forEach((key, measured) -> {
                    double ms = predicted(calibration, key, processes).ms();
                    predicted.add(new PredictedStep(
                            size,
                            processes,
                            key.mode,
                            key.bucketMb,
                            rounded(measured.get("total")),
                            rounded(ms),
                            rounded(100 * (ms / measured.get("total") - 1)),
                            processes == 2 ? "yes" : "no"));
                });
            }
        }
        return predicted;
    }

    private static Seconds predicted(Calibration calibration, ModeKey key, int processes) {
        if (key.mode.equals("none")) {
            return calibration.model().alone();
        }
        return calibration.dataParallel(key.synchronization(), processes).time();
    }

    /** Returns the model sizes that were measured on two GPUs in all modes that the fit needs, and on four GPUs. */
    public List<String> sizes() {
        return Stream.of(ModelSize.values())
                .map(ModelSize::label)
                .filter(size -> modes(size, 2).containsAll(NEEDED))
                .filter(size -> modes(size, 4).size() > 1)
                .toList();
    }

    private Set<String> modes(String size, int processes) {
        return measuredSteps(size, processes).keySet().stream()
                .map(ModeKey::mode)
                .collect(Collectors.toSet());
    }

    /** Returns {@link #predictedAllReduces} as a table. */
    public Table allReduces() {
        return Tables.of(PredictedAllReduce.class, predictedAllReduces()).setName("all-reduces");
    }

    /** Returns measured all-reduces of two and four GPUs with predictions from a fit to those of two. */
    public List<PredictedAllReduce> predictedAllReduces() {
        List<PredictedAllReduce> all = new ArrayList<>();
        Cluster fitted = Calibration.network(Cluster.H200, measuredAllReduces(2));
        for (int processes : new int[] {2, 4}) {
            for (RingAllReduce.MeasuredAllReduce measured : measuredAllReduces(processes)) {
                double ms = measured.time().ms();
                double predicted = fitted.time(
                                Collective.ALL_REDUCE,
                                measured.payload(),
                                fitted.group(processes, 1),
                                Cluster.Algorithm.RING)
                        .ms();
                all.add(new PredictedAllReduce(
                        processes,
                        measured.payload().count() / MB,
                        ms,
                        predicted,
                        rounded(100 * (predicted / ms - 1))));
            }
        }
        return all;
    }

    /** Returns {@link #fittedNumbers} as a table. */
    public Table fits() {
        return Tables.of(FittedNumbers.class, fittedNumbers()).setName("fits");
    }

    /**
     * Returns the numbers fitted to the all-reduces of two and four GPUs, and those fitted to the steps of each of
     * {@link #sizes}.
     */
    public List<FittedNumbers> fittedNumbers() {
        List<FittedNumbers> fits = new ArrayList<>();
        fits.add(fitted("all-reduces", network(), null, null));
        for (String size : sizes()) {
            Calibration fit = calibration(size);
            fits.add(fitted(size, fit.cluster(), fit.overheads(), fit.copying().ms()));
        }
        return fits;
    }

    private static FittedNumbers fitted(String from, Cluster cluster, Overheads overheads, Double copy) {
        return new FittedNumbers(
                from,
                cluster.within().bandwidth().gb(),
                cluster.launch().us(),
                overheads == null ? null : overheads.eachCollective().us(),
                copy,
                overheads == null ? null : overheads.start().us(),
                overheads == null ? null : 100 * overheads.slowdown());
    }

    /** Returns the network fitted to all-reduces of two and of four GPUs. */
    private Cluster network() {
        List<RingAllReduce.MeasuredAllReduce> all = new ArrayList<>(measuredAllReduces(2));
        all.addAll(measuredAllReduces(4));
        return Calibration.network(Cluster.H200, all);
    }

    private Map<ModeKey, Map<String, Double>> measuredSteps(String size, int processes) {
        try {
            return steps(size, processes);
        } catch (IllegalArgumentException notMeasured) {
            return Map.of();
        }
    }

    /**
     * Returns median times in ms, by mode and bucket size and then by metric. Each is the mean over the rounds that
     * contain all modes that a fit needs. In a round with only some of the modes, a slow host would affect only these.
     */
    private Map<ModeKey, Map<String, Double>> steps(String size, int processes) {
        Map<ModeKey, Map<String, List<Double>>> all = new HashMap<>();
        Table rows = numbers.selectWithNumbers(
                ("ddp_benchmarking[size=%s, year=2025, batch=%d, context=%d, dtype=%s, backend=nccl, nodes=1, processes=%d,"
                                + " implementation=plain, status=ok]")
                        .formatted(size, BATCH, CONTEXT, DTYPE, processes),
                "round",
                "bucket_mb");
        Set<String> complete = completeRounds(rows);
        for (Row row : rows) {
            if (!complete.contains(round(row))) {
                continue;
            }
            all.computeIfAbsent(new ModeKey(row.getString("mode"), row.getNumber("bucket_mb")), k -> new TreeMap<>())
                    .computeIfAbsent(row.getString("metric"), m -> new ArrayList<>())
                    .add(row.getDouble("median"));
        }
        Map<ModeKey, Map<String, Double>> means = new TreeMap<>(
                Comparator.comparing((ModeKey key) -> MODES.indexOf(key.mode)).thenComparing(ModeKey::bucketMb));
        all.forEach((key, metrics) -> {
            Map<String, Double> mean = new TreeMap<>();
            metrics.forEach((metric, values) -> mean.put(
                    metric, values.stream().mapToDouble(v -> v).average().orElseThrow()));
            means.put(key, mean);
        });
        return means;
    }

    private static Set<String> completeRounds(Table rows) {
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

    /** Rounds to a thousandth. */
    private static double rounded(double value) {
        return Math.rint(1e3 * value) / 1e3;
    }

    // ---- beyond measurements ----

    /** Returns {@link #scaleOut} as a table. */
    public Table curves() {
        return Tables.of(ScaleOutPoint.class, scaleOut()).setName("curves");
    }

    /**
     * Returns simulated steps on 8 to 16,384 GPUs with constant work per GPU (weak scaling), for two models. One is xl
     * in fp32 with {@value #ALONE_BATCH} sequences of {@value #CONTEXT} tokens, as benchmarked on one GPU. The other is
     * {@link ModelShape#XXL} in bf16 with 4,096 tokens per GPU at {@value #LARGE_UTILIZATION} of the peak, if it fits
     * into the memory of a device. Buckets have 25, 100, 400 or 1,600 MB, whichever is fastest.
     */
    public List<ScaleOutPoint> scaleOut() {
        List<ScaleOutPoint> points = new ArrayList<>();
        Calibration xl = oneGpu();
        for (int n = 8; n <= LARGEST; n *= 2) {
            for (ScaleOutStrategy strategy : strategies(n)) {
                Tokens ofGroup = ALONE_TOKENS.times(strategy.mesh.tensor());
                points.add(point("xl", strategy, best(xl, strategy, ofGroup)));
            }
        }
        Calibration large = large(xl);
        for (int n = 8; n <= LARGEST; n *= 2) {
            for (ScaleOutStrategy strategy : largeStrategies(n)) {
                Tokens ofGroup = LARGE_TOKENS.times(strategy.mesh.tensor());
                var memory = new DeviceMemory(ModelShape.XXL, TrainingState.MIXED, strategy.mesh, ofGroup, 1);
                if (memory.total().compareTo(Accelerator.H200.memory()) <= 0) {
                    points.add(point("XXL", strategy, best(large, strategy, ofGroup)));
                }
            }
        }
        return points;
    }

    private static SimulatedStep best(Calibration calibration, ScaleOutStrategy strategy, Tokens tokens) {
        SimulatedStep step = calibration.step(strategy.mesh, strategy.synchronization, tokens);
        boolean inBuckets = strategy.synchronization.equals(BUCKETS)
                && !(strategy.mesh.shards() > 1 && strategy.mesh.stage() == ZeroStage.PARAMETERS);
        if (!inBuckets) {
            return step;
        }
        return Stream.concat(
                        Stream.of(step),
                        LARGER_BUCKETS.stream().map(buckets -> calibration.step(strategy.mesh, buckets, tokens)))
                .min(Comparator.comparing(SimulatedStep::time))
                .orElseThrow();
    }

    /** Returns xl with its times on one GPU, the network fitted to two and four GPUs, and no overheads. */
    private Calibration oneGpu() {
        var config = ModelSize.XL.config(ModelEdition.SPRING_2025, CONTEXT);
        var model = StepModel.of(config, alone("forward"), alone("backward"), alone("optimizer"));
        return new Calibration(model, network(), Overheads.NONE, DTYPE);
    }

    private Seconds alone(String metric) {
        return Seconds.ms(numbers.quantity(ALONE.formatted(metric)).value());
    }

    /** Returns the XXL model on the same cluster, with xl's measured optimizer time per parameter. */
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

    private static List<ScaleOutStrategy> strategies(int n) {
        Mesh one = Mesh.single();
        List<ScaleOutStrategy> all = new ArrayList<>();
        all.add(new ScaleOutStrategy("ddp-flat", one.withData(n), Synchronization.flat()));
        all.add(new ScaleOutStrategy("ddp", one.withData(n), BUCKETS));
        all.add(new ScaleOutStrategy("zero-1", one.withShards(n, ZeroStage.OPTIMIZER_STATE), BUCKETS));
        all.add(new ScaleOutStrategy("fsdp", one.withShards(n, ZeroStage.PARAMETERS), BUCKETS));
        all.add(new ScaleOutStrategy("hsdp", one.withData(n / 8).withShards(8, ZeroStage.PARAMETERS), BUCKETS));
        all.add(new ScaleOutStrategy("tp-ddp", one.withData(n / 8).withTensor(8), BUCKETS));
        return all;
    }

    private static List<ScaleOutStrategy> largeStrategies(int n) {
        Mesh one = Mesh.single();
        List<ScaleOutStrategy> all = new ArrayList<>();
        all.add(new ScaleOutStrategy("fsdp", one.withShards(n, ZeroStage.PARAMETERS), BUCKETS));
        if (n >= 128) {
            all.add(new ScaleOutStrategy("hsdp", one.withData(n / 64).withShards(64, ZeroStage.PARAMETERS), BUCKETS));
            all.add(new ScaleOutStrategy(
                    "fsdp-tp", one.withShards(n / 8, ZeroStage.PARAMETERS).withTensor(8), BUCKETS));
            all.add(new ScaleOutStrategy(
                    "hsdp-tp",
                    one.withData(n / 128).withShards(16, ZeroStage.PARAMETERS).withTensor(8),
                    BUCKETS));
        }
        return all;
    }

    private static ScaleOutPoint point(String model, ScaleOutStrategy strategy, SimulatedStep step) {
        double ms = step.time().ms();
        return new ScaleOutPoint(
                model,
                strategy.name,
                (int) strategy.mesh.devices(),
                ms,
                100 * step.model().passes().ms() / ms);
    }
}
