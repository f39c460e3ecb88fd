package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.bench.DoBench;
import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.bench.Stopwatch;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import cs336.torch.Torch;
import java.util.List;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * The measurement of one {@link AttentionCase} on random inputs, by each {@link AttentionProtocol}. Every metric is
 * recorded before the next one is measured, so that running out of memory loses none of the earlier ones. TF32 is off
 * in PyTorch's matrix multiplications.
 */
final class AttentionRun {
    private static final long SEED = 0;
    private static final int FEW_TOKENS = 16; // in the warm-up passes that make libraries allocate their workspaces
    private static final String FORWARD = "forward";
    private static final String BACKWARD = "backward";
    private static final String BOTH = "forward-backward";
    private static final String LEADERBOARD = "leaderboard";
    private static final Metric AT_REST = Metric.bytes("memory-at-rest");
    private static final Metric PEAK_FORWARD = Metric.bytes("peak-memory-forward");
    private static final Metric BEFORE_BACKWARD = Metric.bytes("memory-before-backward");
    private static final Metric PEAK_BACKWARD = Metric.bytes("peak-memory-backward");
    private static final Metric PEAK = Metric.bytes("peak-memory");

    /** The metrics of {@link #stopwatch}, without the event times that only CUDA has. */
    static final List<Metric> STOPWATCH_METRICS =
            List.of(AT_REST, Metric.ms(FORWARD), PEAK_FORWARD, BEFORE_BACKWARD, PEAK_BACKWARD, Metric.ms(BACKWARD));

    /** The metrics of {@link #doBench}. */
    static final List<Metric> DO_BENCH_METRICS =
            List.of(Metric.ms(FORWARD), Metric.ms(BACKWARD), Metric.ms(BOTH), PEAK);

    /** The metrics of {@link #leaderboard}. */
    static final List<Metric> LEADERBOARD_METRICS =
            List.of(Metric.ms(LEADERBOARD), Metric.ms(BOTH), Metric.ms(FORWARD));

    private final AttentionCase options;
    private final Attention attention;
    private final Device device;
    private final DType dtype;
    private final Consumer<Samples> record;

    /**
     * Creates a measurement of one case.
     *
     * @param attention the implementation that the case names
     * @param record receives each metric's samples as soon as they are complete
     */
    AttentionRun(AttentionCase options, Attention attention, Device device, Consumer<Samples> record) {
        this.options = options;
        this.attention = attention;
        this.device = device;
        this.dtype = DType.parse(options.dtype());
        this.record = record;
    }

    /**
     * Measures by a protocol.
     *
     * @param warmup passes, or milliseconds for {@code do_bench}
     * @param repetition timed passes, or milliseconds for {@code do_bench}
     */
    void measure(AttentionProtocol protocol, int warmup, int repetition) {
        Torch.allowTf32(false);
        Torch.seed(SEED);
        switch (protocol) {
            case STOPWATCH -> stopwatch(Stopwatch.on(device).warmup(warmup).steps(repetition));
            case DO_BENCH -> doBench(DoBench.on(device).warmup(warmup).rep(repetition));
            case LEADERBOARD -> leaderboard(DoBench.on(device).warmup(warmup).rep(repetition));
        }
    }

    /**
     * Times each pass with a synchronization after it, and reads memory:
     *
     * <ol>
     *   <li>{@code memory-at-rest}: bytes in use before any pass of this size: queries, keys, values, the gradient of
     *       the output, and workspaces that libraries keep once both passes have run. On the CPU it is the memory of
     *       the whole process, including the JVM's.
     *   <li>{@code forward}: forward passes that record the autograd graph.
     *   <li>{@code peak-memory-forward} and {@code memory-before-backward} of one forward pass.
     *   <li>{@code peak-memory-backward} of the backward pass after it.
     *   <li>{@code backward}: backward passes, each after a forward pass that is not timed, until all tensors of the
     *       step are freed.
     * </ol>
     *
     * On CUDA each time is also measured with events, as metrics such as {@code forward-events}.
     */
    private void stopwatch(Stopwatch stopwatch) {
        try (var scope = MemoryScope.open()) {
            try (var warmUp = MemoryScope.open()) {
                step(passes(FEW_TOKENS), phase -> {});
            }
            AttentionPasses passes = passes(options.context());
            record.accept(Samples.once(AT_REST, inUse()));
            stopwatch.time(FORWARD, () -> forward(passes)).samples().forEach(record);
            readMemory(passes);
            stopwatch.laps(lap -> step(passes, lap)).get(BACKWARD).samples().forEach(record);
        }
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
        passes.freeGradients();
        lap.end(BACKWARD);
    }

    private void readMemory(AttentionPasses passes) {
        try (var scope = MemoryScope.open()) {
            resetPeak();
            Tensor output = passes.forward();
            record.accept(Samples.once(PEAK_FORWARD, peak()));
            record.accept(Samples.once(BEFORE_BACKWARD, inUse()));
            resetPeak();
            passes.backwardIntoInputs(output);
            record.accept(Samples.once(PEAK_BACKWARD, peak()));
        }
        passes.freeGradients();
    }

    /**
     * Times passes by {@link DoBench}. Gradients are new tensors; none is accumulated.
     *
     * <ol>
     *   <li>{@code forward}: a forward pass that records the autograd graph.
     *   <li>{@code backward}: a backward pass through a retained graph, from a random gradient of the output.
     *   <li>{@code forward-backward}: both, end to end.
     *   <li>{@code peak-memory}: peak bytes in use during both, above the inputs, the gradient of the output and the
     *       workspaces of libraries. On the CPU it is derived from the memory of the process and only approximate.
     * </ol>
     */
    private void doBench(DoBench bench) {
        try (var scope = MemoryScope.open()) {
            forwardBackward(passes(FEW_TOKENS));
            AttentionPasses passes = passes(options.context());
            long atRest = inUse();
            record.accept(bench.time(FORWARD, passes::forward));
            record.accept(backward(bench, passes));
            record.accept(bench.time(BOTH, passes::forwardBackward));
            resetPeak();
            forwardBackward(passes);
            record.accept(Samples.once(PEAK, Math.max(0, peak() - atRest)));
        }
    }

    private static void forwardBackward(AttentionPasses passes) {
        try (var scope = MemoryScope.open()) {
            passes.forwardBackward();
        }
    }

    private static Samples backward(DoBench bench, AttentionPasses passes) {
        try (var scope = MemoryScope.open()) {
            Tensor output = passes.forward();
            return bench.time(BACKWARD, () -> passes.backward(output));
        }
    }

    /**
     * Times the course's leaderboard test by {@link DoBench}, and the same work without its overhead:
     *
     * <ol>
     *   <li>{@code leaderboard}: the test line by line. Queries, keys and values [H, T, d] are views of one tensor [3,
     *       H, T, d]; a run computes attention, sums the output and calls backward on the sum. So a run also stacks the
     *       three gradients and accumulates them onto those of the earlier runs.
     *   <li>{@code forward-backward}: the same with three separate tensors [1, H, T, d], whose gradients are freed
     *       before a run: attention and sum only.
     *   <li>{@code forward}: its forward pass, which records the autograd graph.
     * </ol>
     */
    private void leaderboard(DoBench bench) {
        boolean causal = options.causal();
        try (var scope = MemoryScope.open()) {
            long[] shape = {3, options.heads(), options.context(), options.d()};
            Tensor stacked = torch.randn(shape, device.options(dtype));
            TensorVector views = torch.unbind(stacked.set_requires_grad(true), 0);
            Tensor q = views.get(0);
            Tensor k = views.get(1);
            Tensor v = views.get(2);
            record.accept(bench.time(
                    LEADERBOARD,
                    () -> Backward.of(attention.apply(q, k, v, causal).sum()).run()));
        }
        try (var scope = MemoryScope.open()) {
            AttentionPasses passes = passes(options.context());
            record.accept(bench.time(BOTH, passes::forwardSumBackward));
            record.accept(bench.time(FORWARD, passes::forward));
        }
    }

    private AttentionPasses passes(int tokens) {
        return new AttentionPasses(attention, options.causal(), device, dtype, options.shape(tokens));
    }

    private long inUse() {
        device.synchronize();
        return MemoryStats.current(device);
    }

    private long peak() {
        device.synchronize();
        return MemoryStats.peak(device);
    }

    private void resetPeak() {
        device.synchronize();
        MemoryStats.resetPeak(device);
    }
}
