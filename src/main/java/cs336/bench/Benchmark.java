package cs336.bench;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.GradScaler;
import cs336.basics.Losses;
import cs336.basics.Optimizer;
import cs336.basics.TransformerLM;
import cs336.torch.CudaGraph;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;

/**
 * A benchmark of a language model on one batch of random tokens.
 *
 * <pre>{@code
 * var result = Benchmark.of(model).batch(4).context(256).warmup(5).steps(10).run(Pass.FORWARD_BACKWARD);
 * }</pre>
 *
 * <p>The benchmark has two rounds, because separate times of the phases require a synchronization after each, which
 * makes the whole step slower. Both have w warm-up steps of their own:
 *
 * <ol>
 *   <li>w warm-up steps, then n steps that are timed as a whole, with one synchronization at the end of each: metric
 *       {@code total}. With w = 0 the first timed step is the first step of this model.
 *   <li>w warm-up steps, then n timed steps, with a synchronization after each phase: metrics {@code forward},
 *       {@code backward}, {@code optimizer}. Because the first round precedes them, only {@code total} shows the effect
 *       of too few warm-up steps.
 * </ol>
 *
 * {@link Pass#FORWARD} has a single phase, so the first round provides {@code forward} too. Its second round is timed
 * without synchronization and shows the error that this causes: metric {@code unsynchronized}, the time in which the
 * host queues the work.
 *
 * <p>The phase {@code forward} includes the loss, except in {@link Pass#FORWARD}, which has none. Each backward pass
 * allocates the gradients, and the last phase of the step frees them; a CUDA graph keeps and overwrites them instead.
 * With fp16 the loss is scaled, and the phase {@code optimizer} includes the check for infinities in the gradients; a
 * step that this check skips is timed like any other. On CUDA each time is also measured with CUDA events, such as
 * {@code total-events}.
 *
 * <p>With {@link #graph graph(true)} the forward and backward passes are recorded as one {@link CudaGraph}, which each
 * step replays. They are then a single phase, {@code forward-backward}. Passes without a backward pass keep the phase
 * {@code forward}.
 *
 * <p>{@code peak-memory} is the peak of the first round including parameters: on CUDA the memory allocated by PyTorch's
 * caching allocator, on the CPU the resident set size of the process.
 */
public final class Benchmark {
    private static final double LEARNING_RATE = 1e-3;
    private static final long SEED = 0;
    private static final Metric PEAK_MEMORY = Metric.bytes("peak-memory");
    private static final String TOTAL = "total";
    private static final String PASSES = "forward-backward";
    private static final String UNSYNCHRONIZED = "unsynchronized";

    private final TransformerLM model;
    private int batch = 4;
    private int context;
    private int warmup = 5;
    private int steps = 10;
    private Precision precision = Precision.FP32;
    private boolean graph;

    private Benchmark(TransformerLM model) {
        this.model = model;
        context = model.config().contextLength();
    }

    /**
     * Returns a benchmark with 5 warm-up and 10 timed steps in fp32, and a batch of 4 sequences of the model's context
     * length.
     */
    public static Benchmark of(TransformerLM model) {
        return new Benchmark(model);
    }

    /** Sets the number of sequences in a batch, at least 1. */
    public Benchmark batch(int sequences) {
        batch = ArgumentCheck.atLeast("batch", 1, sequences);
        return this;
    }

    /** Sets the number of tokens in a sequence, from 1 to the model's context length. */
    public Benchmark context(int tokens) {
        int most = model.config().contextLength();
        if (tokens > most) {
            throw new IllegalArgumentException(
                    "context must be at most the model's context length " + most + ", not " + tokens);
        }
        context = ArgumentCheck.atLeast("context", 1, tokens);
        return this;
    }

    /** Sets the number of warm-up steps of each round, at least 0. */
    public Benchmark warmup(int w) {
        warmup = ArgumentCheck.atLeast("warmup", 0, w);
        return this;
    }

    /** Sets the number of timed steps, at least 1. */
    public Benchmark steps(int n) {
        steps = ArgumentCheck.atLeast("steps", 1, n);
        return this;
    }

    /** Sets the number formats in which the model computes; its parameters are not converted. */
    public Benchmark precision(Precision precision) {
        this.precision = Objects.requireNonNull(precision, "precision must not be null");
        return this;
    }

    /**
     * Sets whether the forward and backward passes run as a CUDA graph, recorded in the first step; false by default.
     *
     * @throws IllegalArgumentException if {@code record} is true and the model is not on a GPU
     */
    public Benchmark graph(boolean record) {
        if (record && !model.device().isCuda()) {
            throw new IllegalArgumentException("graph needs a model on a GPU, not on " + model.device());
        }
        graph = record;
        return this;
    }

    /** Returns the metrics of a pass, without the event times that exist only on CUDA. */
    static List<Metric> metrics(Pass pass, boolean graph) {
        var metrics = new ArrayList<Metric>();
        metrics.add(Metric.ms(TOTAL));
        phases(pass, graph).forEach(phase -> metrics.add(Metric.ms(phase)));
        if (pass == Pass.FORWARD) {
            metrics.add(Metric.ms(UNSYNCHRONIZED));
        }
        metrics.add(PEAK_MEMORY);
        return metrics;
    }

    /** Returns the phases that are timed separately: a graph has no boundary between its forward and backward pass. */
    private static List<String> phases(Pass pass, boolean graph) {
        if (!graph) {
            return pass.phases();
        }
        return switch (pass) {
            case FORWARD, FORWARD_GRAPH -> pass.phases();
            case FORWARD_BACKWARD -> List.of(PASSES);
            case STEP -> List.of(PASSES, "optimizer");
        };
    }

    /**
     * Runs the benchmark. {@link Pass#STEP} updates the model's parameters. During the call TF32 is allowed or
     * forbidden for the whole process, as the precision says.
     */
    public BenchmarkResult run(Pass pass) {
        var samples = new ArrayList<Samples>();
        run(pass, samples::add);
        String title = "%s, %s, batch %,d, context %,d, %,d + %,d steps on %s"
                .formatted(pass, precision, batch, context, warmup, steps, model.device());
        return new BenchmarkResult(title, samples);
    }

    /** Runs the benchmark and passes the samples of each metric to {@code record} as soon as they are complete. */
    void run(Pass pass, Consumer<Samples> record) {
        Objects.requireNonNull(pass, "pass must not be null");
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
                        .synchronize(false)
                        .time(UNSYNCHRONIZED, step::run)
                        .samples()
                        .forEach(record);
            } else {
                Map<String, Timing> phases = stopwatch.laps(step::runInLaps);
                phases.values().forEach(t -> t.samples().forEach(record));
            }
            record.accept(Samples.once(PEAK_MEMORY, peak));
        }
    }

    /**
     * Returns the step that {@link #run} times, so that a caller can run it under a profiler. The caller closes it.
     * Until then TF32 is allowed or forbidden for the whole process, as the precision says. The batch is in the
     * caller's memory scope.
     */
    public Step step(Pass pass) {
        return new Step(pass);
    }

    /**
     * A repeatable pass over the batch. Its phases are {@link ProfilerRange}s: {@code forward} (with the loss, except
     * in {@link Pass#FORWARD}), {@code backward} and {@code optimizer}.
     */
    public final class Step implements AutoCloseable {
        private final Pass pass;
        private final Batches.Batch data;
        private final Optimizer optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(LEARNING_RATE));
        private final GradScaler scaler = precision.scaler(model.device());
        private final CudaGraph recorded = graph ? CudaGraph.on(model.device()) : null;
        private final Torch.Tf32Scope tf32;

        private Step(Pass pass) {
            this.pass = pass;
            data = Batches.random(model.config().vocabSize(), batch, context, model.device(), SEED)
                    .next();
            tf32 = Torch.tf32(precision.tf32());
        }

        /**
         * Runs the pass once, without synchronization, except that an optimizer step in fp16 waits for the overflow
         * check.
         */
        public void run() {
            runInLaps(phase -> {});
        }

        private void runInLaps(Stopwatch.Laps lap) {
            if (recorded == null) {
                runPasses(lap);
            } else {
                replayPasses();
                lap.end(phases(pass, true).get(0));
            }
            if (pass == Pass.STEP) {
                scaler.step(optimizer);
                scaler.update();
                if (recorded == null) {
                    optimizer.zeroGrad(); // a replay overwrites the gradients
                }
                lap.end("optimizer");
            }
        }

        /** Runs the forward pass and, unless the pass ends with it, the backward pass. */
        private void runPasses(Stopwatch.Laps lap) {
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
            // The scope ends with the backward pass: as in PyTorch, freeing activations is part of this phase.
            try (var scope = MemoryScope.open()) {
                Tensor loss;
                try (var range = ProfilerRange.of("forward");
                        var autocast = precision.autocast(model.device())) {
                    loss = scaler.scale(Losses.crossEntropy(model.forward(data.inputs()), data.targets()));
                }
                lap.end("forward");
                if (pass == Pass.FORWARD_GRAPH) {
                    return;
                }
                try (var range = ProfilerRange.of("backward")) {
                    loss.backward();
                }
            }
            if (pass == Pass.FORWARD_BACKWARD && recorded == null) {
                optimizer.zeroGrad();
            }
            lap.end("backward");
        }

        private void replayPasses() {
            if (!recorded.isRecorded()) {
                recorded.warmUp(() -> runPasses(phase -> {}));
                optimizer.zeroGrad(); // so that the recorded pass writes gradients instead of adding to them
                recorded.record(() -> runPasses(phase -> {}));
            }
            recorded.replay();
        }

        @Override
        public void close() {
            if (recorded != null) {
                optimizer.zeroGrad(); // the gradients are in the graph's memory
                recorded.close();
            }
            optimizer.close();
            scaler.close();
            tf32.close();
        }
    }

    private static Samples renamed(Samples samples, String phase) {
        Metric metric = samples.metric();
        return new Samples(new Metric(metric.name().replace(TOTAL, phase), metric.unit()), samples.values());
    }
}
