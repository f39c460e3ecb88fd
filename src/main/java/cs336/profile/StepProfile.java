package cs336.profile;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Benchmark;
import cs336.bench.Metric;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.bench.Stopwatch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A measurement of steps of a language model, without the profiler and with it.
 *
 * <pre>{@code
 * StepProfile profile = StepProfile.of(model, 4, Precision.FP32, Pass.STEP, 2, 3);
 * }</pre>
 *
 * <p>Its metrics have one value per step, except that the numbers of FLOP have a single one. Times are in milliseconds:
 *
 * <ul>
 *   <li>{@code stopwatch}: wall time of the step, synchronized, without the profiler; {@code stopwatch-profiled}: the
 *       same with the profiler. Their difference is the profiling overhead.
 *   <li>{@code profiled}: the step in the trace, from its start to the end of its last operator, range, kernel or copy
 *       on any thread or GPU. CUDA API calls, such as the final synchronization, do not count.
 *   <li>{@code forward-host} …: a phase on its CPU thread. Its kernels may end later.
 *   <li>{@code busy}: GPU busy time.
 *   <li>{@code total-kernels}, {@code total-launches}, {@code total-matmul} …: the time of all kernels, their number,
 *       and the time of each {@link KernelKind}; the same per phase: {@code forward-kernels}, {@code backward-matmul} …
 *   <li>{@code forward-attention-scores}, {@code -softmax}, {@code -values}: kernels launched in these ranges of the
 *       attention; {@code forward-attention-scores-matmul} …: the GEMMs among them; {@code forward-attention-matmul}:
 *       the GEMMs of all three. {@code forward-normalization}: kernels of all normalization layers. For
 *       {@code backward}: the kernels of their gradients.
 *   <li>{@code forward-matmul-flop}, {@code attention-matmul-flop}, {@code attention-softmax-flop}: FLOP of a forward
 *       pass, computed from the shape of the model. The softmax counts as {@value #SOFTMAX_FLOP} FLOP per score:
 *       maximum, difference, exponential, sum, quotient. GEMMs count in full, although the causal mask discards half of
 *       the scores.
 * </ul>
 *
 * The metrics of kernels exist only for steps on a GPU.
 *
 * @param pass pass that a step runs
 * @param stopwatch wall times without the profiler
 * @param stopwatchProfiled wall times with the profiler
 * @param profile the recording; step 0 is the warm-up, steps 1 to n are counted
 * @param flop FLOP of a forward pass
 */
public record StepProfile(
        Pass pass, Samples stopwatch, Samples stopwatchProfiled, Profile profile, List<Samples> flop) {
    private static final String STOPWATCH = "stopwatch";
    private static final String STOPWATCH_PROFILED = "stopwatch-profiled";
    private static final String PROFILED = "profiled";
    private static final int SOFTMAX_FLOP = 5;
    private static final String TOTAL = "total";
    private static final List<String> NORMS = List.of("ln1", "ln2", "ln_final");
    private static final String ATTENTION = "attention.";

    /** The metrics that every profile has. */
    public static final List<Metric> METRICS =
            List.of(Metric.ms(STOPWATCH), Metric.ms(STOPWATCH_PROFILED), Metric.ms(PROFILED));

    /**
     * Times {@code steps} steps without the profiler and {@code steps} steps with it, each after a warm-up. With the
     * profiler the warm-up has one more step, which pays for the profiler's one-time set-up.
     *
     * @param batch batch size in sequences of the model's full context length
     * @param warmup number of warm-up steps, at least 0
     * @param steps number of timed steps, at least 1
     */
    public static StepProfile of(
            TransformerLM model, int batch, Precision precision, Pass pass, int warmup, int steps) {
        Benchmark benchmark = Benchmark.of(model).batch(batch).precision(precision);
        Stopwatch stopwatch = Stopwatch.on(model.device()).steps(steps);
        try (var step = benchmark.step(pass)) {
            Samples plain = stopwatch.warmup(warmup).time(STOPWATCH, step::run).wall();
            var options = model.device().isCuda()
                    ? ProfilerOptions.standard()
                    : ProfilerOptions.standard().cpuOnly();
            try (var profiler = Profiler.start(options)) {
                for (int i = 0; i <= warmup; i++) {
                    step.run(); // one more for the set-up of the profiler
                }
                model.device().synchronize();
                Samples profiled = stopwatch
                        .warmup(0)
                        .time(STOPWATCH_PROFILED, () -> {
                            profiler.step();
                            step.run();
                        })
                        .wall();
                return new StepProfile(pass, plain, profiled, profiler.stop(), flop(model.config(), batch));
            }
        }
    }

    private static List<Samples> flop(TransformerConfig c, int batch) {
        double tokens = (double) batch * c.contextLength();
        double pairs = tokens * c.contextLength();
        double scores = 2 * pairs * c.dModel() * c.numLayers(); // FLOP of Q·Kᵀ, and again of P·V
        double weights = (double) c.numLayers() * c.blockMatrixElements() + c.vocabularyMatrixElements();
        return List.of(
                flop("forward-matmul-flop", 2 * tokens * weights + 2 * scores),
                flop("attention-matmul-flop", 2 * scores),
                flop("attention-softmax-flop", SOFTMAX_FLOP * pairs * c.numHeads() * c.numLayers()));
    }

    private static Samples flop(String name, double operations) {
        return Samples.once(new Metric(name, "FLOP"), operations);
    }

    /** Returns the number of counted steps. */
    public int steps() {
        return stopwatchProfiled.values().size();
    }

    /** Returns the recording of the last step. */
    public Profile lastStep() {
        return new Profile(profile.trace().step(steps()));
    }

    /** Returns the values of all metrics. */
    public List<Samples> samples() {
        var totals = new StepTotals(steps());
        addHostTimes(totals);
        for (DeviceEvent event : profile.trace().work()) {
            if (event.step() > 0) {
                add(event, totals);
            }
        }
        if (!profile.trace().work().isEmpty()) {
            for (int i = 1; i <= steps(); i++) {
                totals.time("busy", i, profile.kernels().step(i).busy());
            }
        }
        List<Samples> samples = new ArrayList<>(List.of(stopwatch, stopwatchProfiled));
        samples.addAll(totals.samples());
        samples.addAll(flop);
        return samples;
    }

    /** Sums of whole nanoseconds and of launches, by metric and step. */
    private static final class StepTotals {
        private final int steps;
        private final Map<String, long[]> nanos = new LinkedHashMap<>();
        private final Map<String, long[]> counts = new LinkedHashMap<>();

        StepTotals(int steps) {
            this.steps = steps;
        }

        void time(String metric, int step, long nanoseconds) {
            nanos.computeIfAbsent(metric, m -> new long[steps])[step - 1] += nanoseconds;
        }

        void count(String metric, int step) {
            counts.computeIfAbsent(metric, m -> new long[steps])[step - 1]++;
        }

        List<Samples> samples() {
            List<Samples> samples = new ArrayList<>();
            nanos.forEach((metric, values) -> samples.add(new Samples(
                    Metric.ms(metric),
                    Arrays.stream(values).mapToObj(ns -> ns / NANOS_PER_MS).toList())));
            counts.forEach((metric, values) -> samples.add(new Samples(
                    new Metric(metric, ""),
                    Arrays.stream(values).mapToObj(n -> (double) n).toList())));
            return samples;
        }
    }

    /** Returns the kernels of these phases, such as {@code forward}, in all counted steps. */
    public KernelTable phases(String... names) {
        return profile.kernels()
                .filter(event -> event.step() > 0 && !Collections.disjoint(event.range(), List.of(names)));
    }

    private void addHostTimes(StepTotals totals) {
        long[] begin = new long[steps() + 1];
        long[] end = new long[steps() + 1];
        for (HostEvent event : profile.trace().host()) {
            int step = event.step();
            if (step < 1) {
                continue;
            }
            if (event.isStep()) {
                begin[step] = event.start();
            } else if (event.kind() != HostEventKind.CALL) {
                end[step] = Math.max(end[step], event.end());
            }
            if (event.isRange() && pass.phases().contains(event.name())) {
                totals.time(event.name() + "-host", step, event.duration());
            }
        }
        for (DeviceEvent event : profile.trace().work()) {
            int step = event.step();
            if (step > 0) {
                end[step] = Math.max(end[step], event.end());
            }
        }
        for (int i = 1; i <= steps(); i++) {
            totals.time(PROFILED, i, end[i] - begin[i]);
        }
    }

    private void add(DeviceEvent event, StepTotals totals) {
        int step = event.step();
        long time = event.duration();
        List<String> range = event.range();
        String phase =
                pass.phases().stream().filter(range::contains).findFirst().orElse("rest");
        for (String scope : List.of(TOTAL, phase)) {
            totals.time(scope + "-kernels", step, time);
            totals.time(scope + "-" + event.kernelKind(), step, time);
            totals.count(scope + "-launches", step);
        }
        List<String> ranges = phase.equals("forward") ? range : event.forwardRange();
        if (!Collections.disjoint(ranges, NORMS)) {
            totals.time(phase + "-normalization", step, time);
        }
        for (String name : ranges) {
            if (!name.startsWith(ATTENTION)) {
                continue;
            }
            String metric = phase + "-attention-" + name.substring(ATTENTION.length());
            totals.time(metric, step, time);
            if (event.kernelKind() == KernelKind.MATMUL) {
                totals.time(metric + "-matmul", step, time);
                totals.time(phase + "-attention-matmul", step, time);
            }
        }
    }
}
