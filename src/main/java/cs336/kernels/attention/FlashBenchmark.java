package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.bench.ArgumentCheck;
import cs336.bench.BenchmarkResult;
import cs336.bench.DoBench;
import cs336.bench.Metric;
import cs336.bench.Samples;
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
 * Times attention with heads on random inputs [B, H, T, d] by the protocol of {@link DoBench}: the course's benchmark
 * of FlashAttention-2.
 *
 * <pre>{@code
 * FlashBenchmark.of("flash").dtype(DType.BFLOAT16).context(1024).d(64).run()
 * }</pre>
 *
 * <p>Each number is handed on before the next is taken, so that what memory does not suffice for hides nothing before
 * it:
 *
 * <ol>
 *   <li>{@code forward}: a forward pass that records its graph.
 *   <li>{@code backward}: a backward pass alone, through a graph that stays, from a random gradient of the output.
 *   <li>{@code forward-backward}: both, end to end.
 *   <li>{@code peak-memory}: the most bytes in use during both, above the inputs, the gradient of the output and what
 *       libraries keep once they have been called. On the CPU, where bytes are those of the process, a rough number.
 * </ol>
 *
 * Gradients are values of their own; none is added to an old one. TF32 is off in PyTorch's products.
 */
public final class FlashBenchmark {
    private static final long SEED = 0;
    private static final int FEW_TOKENS = 16;
    private static final Metric FORWARD = Metric.ms("forward");
    private static final Metric BACKWARD = Metric.ms("backward");
    private static final Metric BOTH = Metric.ms("forward-backward");
    private static final Metric PEAK = Metric.bytes("peak-memory");

    /** What is measured. */
    static final List<Metric> METRICS = List.of(FORWARD, BACKWARD, BOTH, PEAK);

    private final Attention attention;
    private Device device = Device.best();
    private DType dtype = DType.BFLOAT16;
    private boolean causal = true;
    private int batch = 1;
    private int heads = 1;
    private int context = 1024;
    private int d = 64;
    private int warmup = 25;
    private int rep = 100;

    private FlashBenchmark(Attention attention) {
        this.attention = attention;
    }

    /**
     * A causal benchmark in bf16 of one sequence with one head, of 1024 tokens and 64 features, with 25 ms warm-up and
     * 100 ms repetition.
     *
     * @throws IllegalArgumentException if there is no attention of that name
     */
    public static FlashBenchmark of(String attention) {
        return of(Attention.named(attention));
    }

    /** As {@link #of(String)}. */
    static FlashBenchmark of(Attention attention) {
        return new FlashBenchmark(attention);
    }

    /** Where to run; the best device unless this is called. */
    public FlashBenchmark device(Device where) {
        device = where;
        return this;
    }

    /** Type of inputs and outputs. */
    public FlashBenchmark dtype(DType type) {
        dtype = type;
        return this;
    }

    /** Whether query i sees the keys 0 … i only. */
    public FlashBenchmark causal(boolean masked) {
        causal = masked;
        return this;
    }

    /** Sequences, at least 1. */
    public FlashBenchmark batch(int sequences) {
        batch = ArgumentCheck.atLeast("batch", 1, sequences);
        return this;
    }

    /** Heads of a sequence, at least 1. */
    public FlashBenchmark heads(int n) {
        heads = ArgumentCheck.atLeast("heads", 1, n);
        return this;
    }

    /** Tokens a sequence, at least 1. */
    public FlashBenchmark context(int tokens) {
        context = ArgumentCheck.atLeast("context", 1, tokens);
        return this;
    }

    /** Features of queries, keys and values, at least 1. */
    public FlashBenchmark d(int features) {
        d = ArgumentCheck.atLeast("d", 1, features);
        return this;
    }

    /** Warm-up of each pass in ms, at least 0. */
    public FlashBenchmark warmup(int ms) {
        warmup = ArgumentCheck.atLeast("warmup", 0, ms);
        return this;
    }

    /** Timed repetition of each pass in ms, at least 1. */
    public FlashBenchmark rep(int ms) {
        rep = ArgumentCheck.atLeast("rep", 1, ms);
        return this;
    }

    /** Runs all of it. */
    public BenchmarkResult run() {
        var samples = new ArrayList<Samples>();
        run(samples::add);
        String title = "%s attention, %s, batch %s, heads %s, context %s, d %s, %s, do_bench(%s, %s) on %s"
                .formatted(
                        attention.name(),
                        causal ? "causal" : "no mask",
                        batch,
                        heads,
                        context,
                        d,
                        dtype,
                        warmup,
                        rep,
                        device);
        return new BenchmarkResult(title, samples);
    }

    /** As {@link #run()}, handing on each metric when it is complete. */
    void run(Consumer<Samples> record) {
        Torch.allowTf32(false);
        Torch.seed(SEED);
        DoBench bench = DoBench.on(device).warmup(warmup).rep(rep);
        try (var scope = MemoryScope.open()) {
            warmUpLibraries();
            AttentionPasses passes = passes(context);
            long atRest = inUse();
            record.accept(bench.time(FORWARD.name(), passes::forward));
            record.accept(backward(bench, passes));
            record.accept(bench.time(BOTH.name(), passes::forwardBackward));
            record.accept(Samples.once(PEAK, Math.max(0, peak(passes) - atRest)));
        }
    }

    private void warmUpLibraries() {
        try (var scope = MemoryScope.open()) {
            passes(FEW_TOKENS).forwardBackward();
        }
    }

    private AttentionPasses passes(int tokens) {
        return new AttentionPasses(attention, causal, device, dtype, batch, heads, tokens, d);
    }

    private static Samples backward(DoBench bench, AttentionPasses passes) {
        try (var scope = MemoryScope.open()) {
            Tensor output = passes.forward();
            return bench.time(BACKWARD.name(), () -> passes.backward(output));
        }
    }

    private long inUse() {
        device.synchronize();
        return MemoryStats.current(device);
    }

    private long peak(AttentionPasses passes) {
        device.synchronize();
        MemoryStats.resetPeak(device);
        try (var scope = MemoryScope.open()) {
            passes.forwardBackward();
        }
        device.synchronize();
        return MemoryStats.peak(device);
    }
}
