package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.bench.ArgumentCheck;
import cs336.bench.BenchmarkResult;
import cs336.bench.Samples;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.ArrayList;

/**
 * A benchmark of the time and memory of single-head attention on random inputs [B, T, d]: the protocol of the command
 * {@code attention}, for one case. {@link AttentionRun} defines what is timed.
 *
 * <pre>{@code
 * AttentionBenchmark.of("plain").batch(8).context(1024).d(64).steps(100).run()
 * }</pre>
 *
 * <p>The times are {@code forward} and {@code backward}, on CUDA also {@code forward-events} and
 * {@code backward-events}. Memory is {@code memory-at-rest}, {@code peak-memory-forward},
 * {@code memory-before-backward} and {@code peak-memory-backward}, in bytes. {@link #run} forbids TF32 and sets the
 * seeds of PyTorch's generators to 0, for the whole process.
 */
public final class AttentionBenchmark {
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
     * Returns a benchmark of 5 warm-up and 100 timed passes in fp32 without a mask, with a batch of 8, 256 tokens and d
     * 64.
     *
     * @param attention name of the implementation, such as {@code plain} or {@code flash}
     * @throws IllegalArgumentException if the implementation is unknown
     */
    public static AttentionBenchmark of(String attention) {
        return new AttentionBenchmark(Attention.named(attention));
    }

    /** Sets the device; {@link Device#best} by default. */
    public AttentionBenchmark device(Device where) {
        device = where;
        return this;
    }

    /** Sets the dtype of inputs and outputs. */
    public AttentionBenchmark dtype(DType type) {
        dtype = type;
        return this;
    }

    /** Sets whether query i attends to keys 0 … i only. */
    public AttentionBenchmark causal(boolean masked) {
        causal = masked;
        return this;
    }

    /** Sets the batch size, at least 1. */
    public AttentionBenchmark batch(int sequences) {
        batch = ArgumentCheck.atLeast("batch", 1, sequences);
        return this;
    }

    /** Sets the number of tokens per sequence, at least 1. */
    public AttentionBenchmark context(int tokens) {
        context = ArgumentCheck.atLeast("context", 1, tokens);
        return this;
    }

    /** Sets the head dimension: the columns of queries, keys and values, at least 1. */
    public AttentionBenchmark d(int columns) {
        d = ArgumentCheck.atLeast("d", 1, columns);
        return this;
    }

    /** Sets the number of warm-up passes, at least 0. */
    public AttentionBenchmark warmup(int passes) {
        warmup = ArgumentCheck.atLeast("warmup", 0, passes);
        return this;
    }

    /** Sets the number of timed passes of each kind, at least 1. */
    public AttentionBenchmark steps(int passes) {
        steps = ArgumentCheck.atLeast("steps", 1, passes);
        return this;
    }

    /**
     * Runs the benchmark.
     *
     * @throws IllegalArgumentException if the inputs are too large, or the implementation does not support the device,
     *     the dtype or d
     */
    public BenchmarkResult run() {
        var options = new AttentionCase(attention.name(), batch, null, d, context, dtype.shortName(), causal);
        var samples = new ArrayList<Samples>();
        new AttentionRun(options, attention, device, samples::add).measure(AttentionProtocol.STOPWATCH, warmup, steps);
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
}
