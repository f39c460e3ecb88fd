package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.bench.ArgumentCheck;
import cs336.bench.BenchmarkResult;
import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.bench.Stopwatch;
import cs336.bench.Timing;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;

/**
 * Times attention without heads on random inputs [B, T, d], and reads how much memory it takes.
 *
 * <pre>{@code
 * AttentionBenchmark.of("plain").batch(8).context(1024).d(64).steps(100).run()
 * }</pre>
 *
 * <p>Each number is handed on before the next is taken, so that what memory does not suffice for hides nothing before
 * it:
 *
 * <ol>
 *   <li>{@code memory-at-rest}: bytes in use before any pass of this size. That is queries, keys, values, the gradient
 *       of the output, and what libraries keep once they have been called in both passes. On the CPU, where bytes are
 *       those of the process, Java's too.
 *   <li>{@code forward}: w + n forward passes, each of which records its graph for a backward pass and is waited for.
 *   <li>{@code peak-memory-forward} and {@code memory-before-backward}, of one forward pass.
 *   <li>{@code peak-memory-backward}, of the backward pass after it.
 *   <li>{@code backward}: w + n backward passes, each after a forward pass that is not timed; all that the step has
 *       made is freed at its end.
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
        batch = ArgumentCheck.atLeast("batch", 1, sequences);
        return this;
    }

    /** Tokens a sequence, at least 1. */
    public AttentionBenchmark context(int tokens) {
        context = ArgumentCheck.atLeast("context", 1, tokens);
        return this;
    }

    /** Features of queries, keys and values, at least 1. */
    public AttentionBenchmark d(int features) {
        d = ArgumentCheck.atLeast("d", 1, features);
        return this;
    }

    /** Passes before timing begins, at least 0. */
    public AttentionBenchmark warmup(int w) {
        warmup = ArgumentCheck.atLeast("warmup", 0, w);
        return this;
    }

    /** Timed passes of each kind, at least 1. */
    public AttentionBenchmark steps(int n) {
        steps = ArgumentCheck.atLeast("steps", 1, n);
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
            AttentionPasses passes = passes(context);
            record.accept(Samples.once(AT_REST, inUse()));
            stopwatch.time(FORWARD, () -> forward(passes)).samples().forEach(record);
            readMemory(passes, record);
            Timing backward = stopwatch.laps(lap -> step(passes, lap)).get(BACKWARD);
            backward.samples().forEach(record);
        }
    }

    private void warmUpLibraries() {
        try (var scope = MemoryScope.open()) {
            step(passes(FEW_TOKENS), phase -> {});
        }
    }

    private long inUse() {
        device.synchronize();
        return MemoryStats.current(device);
    }

    private long peak() {
        device.synchronize();
        return MemoryStats.peak(device);
    }

    private AttentionPasses passes(int tokens) {
        return new AttentionPasses(attention, causal, device, dtype, batch, tokens, d);
    }

    private static void forward(AttentionPasses passes) {
        try (var scope = MemoryScope.open()) {
            passes.forward();
        }
    }

    private static void step(AttentionPasses passes, Stopwatch.Laps lap) {
        try (var scope = MemoryScope.open()) {
            Tensor output = passes.forward();
            lap.end(FORWARD);
            passes.backwardIntoInputs(output);
        }
        passes.dropGradients();
        lap.end(BACKWARD);
    }

    private void readMemory(AttentionPasses passes, Consumer<Samples> record) {
        try (var scope = MemoryScope.open()) {
            device.synchronize();
            MemoryStats.resetPeak(device);
            Tensor output = passes.forward();
            record.accept(Samples.once(PEAK_FORWARD, peak()));
            record.accept(Samples.once(BEFORE_BACKWARD, inUse()));
            MemoryStats.resetPeak(device);
            passes.backwardIntoInputs(output);
            record.accept(Samples.once(PEAK_BACKWARD, peak()));
        }
        passes.dropGradients();
    }
}
