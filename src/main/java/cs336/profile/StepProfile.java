package cs336.profile;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.basics.ModelEdition;
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
 * Steps of a language model under the profiler, beside the same steps under the stopwatch alone.
 *
 * <pre>{@code
 * StepProfile profile = StepProfile.of(model, 4, Precision.FP32, Pass.STEP, 2, 3);
 * }</pre>
 *
 * <p>Its numbers, one a step, times in milliseconds:
 *
 * <ul>
 *   <li>{@code stopwatch}: the step as a whole, waited for, without the profiler; {@code stopwatch-profiled}: with it.
 *       Their difference is what recording costs.
 *   <li>{@code profiled}: the step in the trace, from its begin to the end of its last event, on threads or cards.
 *   <li>{@code forward-host} …: a phase on the thread that runs it. On a card's side it may go on for longer.
 *   <li>{@code busy}: the time in which the card worked.
 *   <li>{@code total-kernels}, {@code total-launches}, {@code total-matmul} …: the time of all kernels, their number,
 *       the time of each {@link KernelKind}; and the same of each phase: {@code forward-kernels},
 *       {@code backward-matmul} …
 *   <li>{@code forward-attention-scores}, {@code -softmax}, {@code -values}: kernels started in these places of the
 *       attention; {@code forward-attention-scores-matmul} …: the matrix products among them;
 *       {@code forward-attention-matmul}: those of all three. {@code forward-normalization}: kernels of all
 *       normalisation layers. For {@code backward}, the kernels of their gradients.
 *   <li>{@code forward-matmul-flop}, {@code attention-matmul-flop}, {@code attention-softmax-flop}: floating-point
 *       operations of a forward pass, counted from the model's shape. A score has {@value #SOFTMAX_FLOP} in its
 *       softmax: maximum, difference, exponential, sum, quotient. No product is left out for the causal mask.
 * </ul>
 *
 * Those of kernels are there only where a card worked.
 *
 * @param pass what a step is
 * @param stopwatch times without the profiler
 * @param stopwatchProfiled times with it
 * @param profile the recording; its step 0 is the warm-up, steps 1 … n count
 * @param flop operations of a forward pass
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

    /** What every profile has; see above. */
    public static final List<Metric> METRICS =
            List.of(Metric.ms(STOPWATCH), Metric.ms(STOPWATCH_PROFILED), Metric.ms(PROFILED));

    /**
     * Runs w + n steps under the stopwatch, then w + 1 + n under the profiler, of which the last n count.
     *
     * @param batch sequences as long as the model allows
     * @param warmup w, at least 0
     * @param steps n, at least 1
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
                for (int i = 0; i <= warmup; i++) step.run(); // the first pays for what the profiler does once
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
        double scores = 2 * pairs * c.dModel() * c.numLayers(); // the products with values are as many
        double width = c.dModel();
        int feedForwardMatrices = c.form() == ModelEdition.SPRING_2024 ? 2 : 3;
        double weights =
                c.numLayers() * (4 * width * width + feedForwardMatrices * width * c.dFf()) + width * c.vocabSize();
        return List.of(
                flop("forward-matmul-flop", 2 * tokens * weights + 2 * scores),
                flop("attention-matmul-flop", 2 * scores),
                flop("attention-softmax-flop", SOFTMAX_FLOP * pairs * c.numHeads() * c.numLayers()));
    }

    private static Samples flop(String name, double operations) {
        return Samples.once(new Metric(name, "FLOP"), operations);
    }

    /** How many steps were counted. */
    public int steps() {
        return stopwatchProfiled.values().size();
    }

    /** The recording of the last step alone. */
    public Profile lastStep() {
        return new Profile(profile.trace().step(steps()));
    }

    /** All numbers; see above. */
    public List<Samples> samples() {
        StepTotals totals = new StepTotals(steps());
        addTimesOfHost(totals);
        for (DeviceEvent event : profile.trace().work()) {
            if (event.step() > 0) add(event, totals);
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

    /** Whole nanoseconds and counts, by metric and step. */
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

    /** The kernels of these phases of the counted steps, such as {@code forward}. */
    public KernelTable phases(String... names) {
        return profile.kernels()
                .filter(event -> event.step() > 0 && !Collections.disjoint(event.range(), List.of(names)));
    }

    private void addTimesOfHost(StepTotals totals) {
        long[] begin = new long[steps() + 1];
        long[] end = new long[steps() + 1];
        for (HostEvent event : profile.trace().host()) {
            int step = event.step();
            if (step < 1) continue;
            if (event.isStep()) begin[step] = event.start();
            else if (event.kind() != HostEventKind.CALL) end[step] = Math.max(end[step], event.end());
            if (event.isRange() && pass.phases().contains(event.name())) {
                totals.time(event.name() + "-host", step, event.duration());
            }
        }
        for (DeviceEvent event : profile.trace().work()) {
            int step = event.step();
            if (step > 0) end[step] = Math.max(end[step], event.end());
        }
        for (int i = 1; i <= steps(); i++) totals.time(PROFILED, i, end[i] - begin[i]);
    }

    private void add(DeviceEvent event, StepTotals totals) {
        int step = event.step();
        long time = event.duration();
        List<String> range = event.range();
        String phase =
                pass.phases().stream().filter(range::contains).findFirst().orElse("rest");
        for (String part : List.of(TOTAL, phase)) {
            totals.time(part + "-kernels", step, time);
            totals.time(part + "-" + event.kernelKind(), step, time);
            totals.count(part + "-launches", step);
        }
        List<String> place = phase.equals("forward") ? range : event.forwardRange();
        if (!Collections.disjoint(place, NORMS)) totals.time(phase + "-normalization", step, time);
        for (String name : place) {
            if (!name.startsWith(ATTENTION)) continue;
            String part = phase + "-attention-" + name.substring(ATTENTION.length());
            totals.time(part, step, time);
            if (event.kernelKind() == KernelKind.MATMUL) {
                totals.time(part + "-matmul", step, time);
                totals.time(phase + "-attention-matmul", step, time);
            }
        }
    }
}
