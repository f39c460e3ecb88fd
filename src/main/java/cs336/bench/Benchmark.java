package cs336.bench;

import cs336.basics.AdamW;
import cs336.basics.Batches;
import cs336.basics.GradScaler;
import cs336.basics.Losses;
import cs336.basics.Optimizer;
import cs336.basics.TransformerLM;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;

/**
 * Times a language model on one batch of random tokens.
 *
 * <pre>{@code
 * var result = Benchmark.of(model).batch(4).context(256).warmup(5).steps(10).run(Pass.FORWARD_BACKWARD);
 * }</pre>
 *
 * <p>Two rounds are run, since to time a phase by itself the device must be waited for after it, and that takes time
 * from the whole:
 *
 * <ol>
 *   <li>w warm-up steps, then n steps timed as a whole, with one wait at the end of each: metric {@code total}. With w
 *       = 0 the first of them is the first that this model ever does.
 *   <li>n more steps with a wait after each phase: metrics {@code forward}, {@code backward}, {@code optimizer}. They
 *       are warm whatever w is.
 * </ol>
 *
 * {@link Pass#FORWARD} has one phase, which is the whole, so the first round serves for both; its second round is timed
 * wrongly on purpose, without waiting for the device at the end of a step: metric {@code unsynchronised}, how long it
 * takes to queue the work.
 *
 * <p>The phase {@code forward} ends with the loss, except in {@link Pass#FORWARD}, which has none. Gradients are
 * allocated by each backward pass and freed in the last phase of the step. With fp16 the loss is scaled, and the phase
 * {@code optimizer} includes the check of the gradients; a step that it skips is timed all the same. On CUDA each time
 * has a twin from the card's own clock, such as {@code total-events}.
 *
 * <p>{@code peak-memory} is the most that was in use during the first round, parameters included: on CUDA what
 * PyTorch's allocator had handed out, on the CPU the resident set of the process.
 */
public final class Benchmark {
    private static final double LEARNING_RATE = 1e-3;
    private static final long SEED = 0;
    private static final Metric PEAK_MEMORY = Metric.bytes("peak-memory");
    private static final String TOTAL = "total";
    private static final String UNSYNCHRONISED = "unsynchronised";

    private final TransformerLM model;
    private int batch = 4;
    private int context;
    private int warmup = 5;
    private int steps = 10;
    private Precision precision = Precision.FP32;

    private Benchmark(TransformerLM model) {
        this.model = model;
        context = model.config().contextLength();
    }

    /** A benchmark of 5 + 10 steps in fp32, with a batch of 4 sequences as long as the model allows. */
    public static Benchmark of(TransformerLM model) {
        return new Benchmark(model);
    }

    /** Sequences a step, at least 1. */
    public Benchmark batch(int sequences) {
        batch = ArgumentCheck.atLeast("batch", 1, sequences);
        return this;
    }

    /** Tokens a sequence, from 1 to the model's context length. */
    public Benchmark context(int tokens) {
        int most = model.config().contextLength();
        if (tokens > most) {
            throw new IllegalArgumentException(
                    "context must be at most the model's context length " + most + ", not " + tokens);
        }
        context = ArgumentCheck.atLeast("context", 1, tokens);
        return this;
    }

    /** Steps before timing begins, at least 0. */
    public Benchmark warmup(int w) {
        warmup = ArgumentCheck.atLeast("warmup", 0, w);
        return this;
    }

    /** Timed steps, at least 1. */
    public Benchmark steps(int n) {
        steps = ArgumentCheck.atLeast("steps", 1, n);
        return this;
    }

    /** In what the model computes; parameters stay as they are. */
    public Benchmark precision(Precision p) {
        precision = p;
        return this;
    }

    /** What a pass is measured by, without the event times that only CUDA has. */
    static List<Metric> metrics(Pass pass) {
        var metrics = new ArrayList<Metric>();
        metrics.add(Metric.ms(TOTAL));
        pass.phases().forEach(phase -> metrics.add(Metric.ms(phase)));
        if (pass == Pass.FORWARD) metrics.add(Metric.ms(UNSYNCHRONISED));
        metrics.add(PEAK_MEMORY);
        return metrics;
    }

    /** Runs and times the pass. The model's parameters move if the pass has an optimizer. */
    public BenchmarkResult run(Pass pass) {
        var samples = new ArrayList<Samples>();
        run(pass, samples::add);
        String title = "%s, %s, batch %d, context %d, %d + %d steps on %s"
                .formatted(pass, precision, batch, context, warmup, steps, model.device());
        return new BenchmarkResult(title, samples);
    }

    /** As {@link #run(Pass)}, handing on each metric when it is complete. */
    void run(Pass pass, Consumer<Samples> record) {
        Device device = model.device();
        Stopwatch stopwatch = Stopwatch.on(device).steps(steps);
        try (var scope = MemoryScope.open();
                var step = step(pass)) {
            MemoryStats.resetPeak(device);
            Timing total = stopwatch.warmup(warmup).time(TOTAL, step::run);
            long peak = MemoryStats.peak(device);
            total.samples().forEach(record);
            if (pass == Pass.FORWARD) {
                total.samples()
                        .forEach(s -> record.accept(renamed(s, pass.phases().get(0))));
                stopwatch
                        .warmup(0)
                        .synchronised(false)
                        .time(UNSYNCHRONISED, step::run)
                        .samples()
                        .forEach(record);
            } else {
                Map<String, Timing> phases = stopwatch.warmup(0).laps(step::runInLaps);
                phases.values().forEach(t -> t.samples().forEach(record));
            }
            record.accept(Samples.once(PEAK_MEMORY, peak));
        }
    }

    /** The step that {@link #run} times, to be run by the caller, as under a profiler. */
    public Step step(Pass pass) {
        Torch.allowTf32(precision.tf32());
        return new Step(pass);
    }

    /**
     * One pass over the batch, over and over. Its phases are {@link ProfilerRange}s: {@code forward}, which ends with
     * the loss, {@code backward}, {@code optimizer}.
     */
    public final class Step implements AutoCloseable {
        private final Pass pass;
        private final Batches.Batch data;
        private final Optimizer optimizer = new AdamW(model.namedParameters(), AdamW.Options.of(LEARNING_RATE));
        private final GradScaler scaler = precision.scaler(model.device());

        private Step(Pass pass) {
            this.pass = pass;
            data = Batches.random(model.config().vocabSize(), batch, context, model.device(), SEED)
                    .next();
        }

        /** Runs the pass once, without waiting for the device. */
        public void run() {
            runInLaps(phase -> {});
        }

        private void runInLaps(Stopwatch.Laps lap) {
            if (pass == Pass.FORWARD) {
                try (var range = ProfilerRange.of("forward");
                        var scope = MemoryScope.open();
                        var noGrad = NoGrad.open();
                        var autocast = precision.autocast(model.device())) {
                    model.forward(data.inputs());
                }
                lap.end("forward");
                return;
            }
            // The scope ends with the backward pass, so that freeing counts as part of it, as it does in PyTorch.
            try (var scope = MemoryScope.open()) {
                Tensor loss;
                try (var range = ProfilerRange.of("forward");
                        var autocast = precision.autocast(model.device())) {
                    loss = scaler.scale(Losses.crossEntropy(model.forward(data.inputs()), data.targets()));
                }
                lap.end("forward");
                if (pass == Pass.FORWARD_GRAPH) return;
                try (var range = ProfilerRange.of("backward")) {
                    loss.backward();
                }
            }
            if (pass == Pass.STEP) {
                lap.end("backward");
                scaler.step(optimizer);
                scaler.update();
                optimizer.zeroGrad();
                lap.end("optimizer");
            } else {
                optimizer.zeroGrad();
                lap.end("backward");
            }
        }

        @Override
        public void close() {
            optimizer.close();
            scaler.close();
        }
    }

    private static Samples renamed(Samples samples, String phase) {
        Metric metric = samples.metric();
        return new Samples(new Metric(metric.name().replace(TOTAL, phase), metric.unit()), samples.values());
    }
}
