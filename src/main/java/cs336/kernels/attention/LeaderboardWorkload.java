package cs336.kernels.attention;

import cs336.basics.Attention;
import cs336.bench.Case;
import cs336.bench.DoBench;
import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.bench.Workload;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * The course's leaderboard of FlashAttention-2 as a case of a sweep: causal attention of one sequence in bf16, by the
 * protocol of {@link DoBench}.
 *
 * <ol>
 *   <li>{@code leaderboard}: the course's test line by line. Queries, keys and values [H, T, d] are the parts of one
 *       tensor [3, H, T, d]; a run attends, sums the output, and goes back from the sum. So a run also stacks the three
 *       gradients and adds them to those of the runs before.
 *   <li>{@code forward-backward}: the same for three tensors [1, H, T, d] of their own, whose gradients are dropped
 *       before a run: attention and sum, and nothing else.
 *   <li>{@code forward}: the forward pass of the latter, which records its graph.
 * </ol>
 */
public final class LeaderboardWorkload implements Workload {
    private static final long SEED = 0;
    private static final DType DTYPE = DType.BFLOAT16;
    private static final boolean CAUSAL = true;
    private static final Metric LEADERBOARD = Metric.ms("leaderboard");
    private static final Metric BOTH = Metric.ms("forward-backward");
    private static final Metric FORWARD = Metric.ms("forward");

    /**
     * The case of an attention under its name; {@code device} is still to be set.
     *
     * @param warmup in ms
     * @param rep in ms
     * @param round tells rounds apart that are measured in turn with a peer
     */
    static Case of(String attention, int heads, int d, int context, int warmup, int rep, int round) {
        return Case.of(LeaderboardWorkload.class, attention)
                .with("batch", 1)
                .with("heads", heads)
                .with("d", d)
                .with("context", context)
                .with("dtype", "bf16")
                .with("causal", CAUSAL)
                .with("warmup", warmup)
                .with("rep", rep)
                .with("round", round)
                .yields(LEADERBOARD, BOTH, FORWARD);
    }

    @Override
    public void run(Case c, Consumer<Samples> record) {
        Attention attention = Attention.named(c.implementation());
        Device device = Device.parse(c.text("device"));
        int heads = c.integer("heads");
        int context = c.integer("context");
        int d = c.integer("d");
        Torch.seed(SEED);
        DoBench bench = DoBench.on(device).warmup(c.integer("warmup")).rep(c.integer("rep"));
        try (var scope = MemoryScope.open()) {
            Tensor together = torch.randn(new long[] {3, heads, context, d}, device.options(DTYPE));
            TensorVector parts = torch.unbind(together.set_requires_grad(true), 0);
            Tensor q = parts.get(0);
            Tensor k = parts.get(1);
            Tensor v = parts.get(2);
            record.accept(bench.time(
                    LEADERBOARD.name(),
                    () -> Backward.of(attention.apply(q, k, v, CAUSAL).sum()).run()));
        }
        try (var scope = MemoryScope.open()) {
            var passes = new AttentionPasses(attention, CAUSAL, device, DTYPE, 1, heads, context, d);
            record.accept(bench.time(BOTH.name(), passes::forwardSumBackward));
            record.accept(bench.time(FORWARD.name(), passes::forward));
        }
    }
}
