package cs336.kernels;

import cs336.basics.Attention;
import cs336.bench.Argument;
import cs336.bench.BenchmarkResult;
import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.bench.Stopwatch;
import cs336.bench.Timing;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Memory;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Times attention without heads on random inputs [B, T, d], and reads how much memory it takes.
 *
 * <pre>{@code
 * AttentionBenchmark.of("plain").batch(8).context(1024).d(64).steps(100).run()
 * }</pre>
 *
 * <p>Each number is handed on before the next is taken, so that what memory does not suffice for hides nothing before it:
 *
 * <ol>
 *   <li>{@code memory-at-rest}: bytes in use before any pass of this size. That is queries, keys, values, the gradient of
 *       the output, and what libraries keep once they have been called in both passes. On the CPU, where bytes are those of
 *       the process, Java's too.
 *   <li>{@code forward}: w + n forward passes, each of which records its graph for a backward pass and is waited for.
 *   <li>{@code peak-memory-forward} and {@code memory-before-backward}, of one forward pass.
 *   <li>{@code peak-memory-backward}, of the backward pass after it.
 *   <li>{@code backward}: w + n backward passes, each after a forward pass that is not timed; all that the step has made is
 *       freed at its end.
 * </ol>
 *
 * On CUDA each time has a twin from the card's own clock, such as {@code forward-events}. TF32 is off.
 */
public final class AttentionBenchmark {
    private static final long SEED = 0;
    private static final int FEW_TOKENS = 16;
    private static final String FORWARD = "forward";
    private static final String BACKWARD = "backward";
    private static final Metric AT_REST = Metric.bytes("memory-at-rest");
    private static final Metric PEAK_FORWARD = Metric.bytes("peak-memory-forward");
    private static final Metric BEFORE_BACKWARD = Metric.bytes("memory-before-backward");
    private static final Metric PEAK_BACKWARD = Metric.bytes("peak-memory-backward");

    /** What is measured, without the event times that only CUDA has. */
    static final List<Metric> METRICS =
            List.of(AT_REST, Metric.ms(FORWARD), PEAK_FORWARD, BEFORE_BACKWARD, PEAK_BACKWARD, Metric.ms(BACKWARD));

    private final Attention attention;
    private Device device = Device.best();
    private DType dtype = DType.FLOAT32;
    private boolean causal;
    private int batch = 8;
    private int context = 256;
    private int d = 64;
    private int warmup = 5;
    private int steps = 100;

    private AttentionBenchmark(Attention attention) {
        this.attention = attention;
    }

    /**
     * A benchmark of 5 + 100 passes in fp32 without a mask, of 8 sequences of 256 tokens and 64 features.
     *
     * @throws IllegalArgumentException if there is no attention of that name
     */
    public static AttentionBenchmark of(String attention) {
        return new AttentionBenchmark(Attention.named(attention));
    }

    /** Where to run; the best device unless this is called. */
    public AttentionBenchmark device(Device where) {
        device = where;
        return this;
    }

    /** Type of inputs and outputs. */
    public AttentionBenchmark dtype(DType type) {
        dtype = type;
        return this;
    }

    /** Whether query i sees the keys 0 … i only. */
    public AttentionBenchmark causal(boolean masked) {
        causal = masked;
        return this;
    }

    /** Sequences a pass, at least 1. */
    public AttentionBenchmark batch(int sequences) {
        batch = Argument.atLeast("batch", 1, sequences);
        return this;
    }

    /** Tokens a sequence, at least 1. */
    public AttentionBenchmark context(int tokens) {
        context = Argument.atLeast("context", 1, tokens);
        return this;
    }

    /** Features of queries, keys and values, at least 1. */
    public AttentionBenchmark d(int features) {
        d = Argument.atLeast("d", 1, features);
        return this;
    }

    /** Passes before timing begins, at least 0. */
    public AttentionBenchmark warmup(int w) {
        warmup = Argument.atLeast("warmup", 0, w);
        return this;
    }

    /** Timed passes of each kind, at least 1. */
    public AttentionBenchmark steps(int n) {
        steps = Argument.atLeast("steps", 1, n);
        return this;
    }

    /** Runs all of it. */
    public BenchmarkResult run() {
        var samples = new ArrayList<Samples>();
        run(samples::add);
        String title = "%s attention, %s, batch %s, context %s, d %s, %s, %s + %s passes on %s"
                .formatted(
                        attention.name(),
                        causal ? "causal" : "no mask",
                        batch,
                        context,
                        d,
                        dtype,
                        warmup,
                        steps,
                        device);
        return new BenchmarkResult(title, samples);
    }

    /** As {@link #run()}, handing on each metric when it is complete. */
    void run(Consumer<Samples> record) {
        Torch.allowTf32(false);
        Torch.seed(SEED);
        Stopwatch stopwatch = Stopwatch.on(device).warmup(warmup).steps(steps);
        try (var scope = MemoryScope.open()) {
            warmUpLibraries();
            Step step = new Step(context);
            record.accept(Samples.once(AT_REST, inUse()));
            stopwatch.time(FORWARD, step::forward).samples().forEach(record);
            step.readMemory(record);
            Timing backward = stopwatch.laps(step::run).get(BACKWARD);
            backward.samples().forEach(record);
        }
    }

    private void warmUpLibraries() {
        try (var scope = MemoryScope.open()) {
            new Step(FEW_TOKENS).run(phase -> {});
        }
    }

    private long inUse() {
        device.synchronize();
        return Memory.current(device);
    }

    private long peak() {
        device.synchronize();
        return Memory.peak(device);
    }

    /** Inputs of one length, and the passes over them. */
    private final class Step {
        private final Tensor q;
        private final Tensor k;
        private final Tensor v;
        private final Tensor dO;

        Step(int tokens) {
            q = randn(tokens).set_requires_grad(true);
            k = randn(tokens).set_requires_grad(true);
            v = randn(tokens).set_requires_grad(true);
            dO = randn(tokens);
        }

        private Tensor randn(int tokens) {
            return torch.randn(new long[] {batch, tokens, d}, device.options(dtype));
        }

        void forward() {
            try (var scope = MemoryScope.open()) {
                attention.apply(q, k, v, causal);
            }
        }

        void run(Stopwatch.Laps lap) {
            try (var scope = MemoryScope.open()) {
                Tensor output = attention.apply(q, k, v, causal);
                lap.end(FORWARD);
                Backward.of(output).with(dO).run();
            }
            dropGradients();
            lap.end(BACKWARD);
        }

        void readMemory(Consumer<Samples> record) {
            try (var scope = MemoryScope.open()) {
                device.synchronize();
                Memory.resetPeak(device);
                Tensor output = attention.apply(q, k, v, causal);
                record.accept(Samples.once(PEAK_FORWARD, peak()));
                record.accept(Samples.once(BEFORE_BACKWARD, inUse()));
                Memory.resetPeak(device);
                Backward.of(output).with(dO).run();
                record.accept(Samples.once(PEAK_BACKWARD, peak()));
            }
            dropGradients();
        }

        private void dropGradients() {
            for (Tensor input : List.of(q, k, v)) {
                input.mutable_grad().reset();
            }
        }
    }
}
