package cs336.basics;

import cs336.checkpointing.ActivationCheckpoint;
import cs336.checkpointing.ActivationStore;
import cs336.checkpointing.CheckpointPlan;
import cs336.checkpointing.CheckpointPolicy;
import cs336.checkpointing.HostStore;
import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;

/**
 * A pre-norm Transformer block, [B, T, D] → [B, T, D]: y = x + attn(ln1(x)), output y + ffn(ln2(y)). Children
 * {@code ln1}, {@code attn}, {@code ln2}, {@code ffn}.
 */
public final class TransformerBlock extends NnModule {
    private final NnModule attentionNorm;
    private final SelfAttention attention;
    private final NnModule feedForwardNorm;
    private final FeedForward feedForward;
    private final boolean recomputesFeedForward;
    private final boolean recomputesElementwise;
    private final ActivationStore activations;

    /**
     * Creates a block for a model of one's own, with random weights. It runs each operator separately and keeps all
     * activations, whatever the configuration says about attention, fusion and checkpointing.
     *
     * @param config widths, number of heads, normalization, ε, and the year, which selects the feed-forward layer
     * @param attention the implementation of attention
     * @param rotary rotary position embedding of queries and keys; null for none. The caller closes it after the block
     */
    public TransformerBlock(
            TransformerConfig config, Attention attention, RotaryEmbedding rotary, Device device, DType dtype) {
        this(
                config,
                attention,
                rotary,
                new Fuser.NoFuser(),
                FeedForward.activation(new Fuser.NoFuser()), // holds nothing that must be closed
                CheckpointPolicy.everything().plan(1),
                null,
                0,
                device,
                dtype);
    }

    /**
     * @param fuser runs linear layers with the same input
     * @param activation activation function of the feed-forward layer; the caller closes it
     * @param plan determines which activations are kept for the backward pass
     * @param host the store of the activations that the plan offloads; not used if it offloads none
     * @param index the position of this block in the plan
     */
    TransformerBlock(
            TransformerConfig config,
            Attention attention,
            RotaryEmbedding rotary,
            Fuser fuser,
            Fuser.FusedFunction activation,
            CheckpointPlan plan,
            HostStore host,
            int index,
            Device device,
            DType dtype) {
        recomputesFeedForward = plan.recomputesFeedForward(index);
        recomputesElementwise = plan.recomputesElementwise(index);
        activations = plan.offloadsFeedForward(index) ? host : ActivationStore.graph();
        Normalization norm = Normalization.named(config.normalization());
        int dModel = config.dModel();
        attentionNorm = child("ln1", norm.create(dModel, config.eps(), device, dtype));
        this.attention =
                child("attn", new SelfAttention(dModel, config.numHeads(), attention, rotary, fuser, device, dtype));
        feedForwardNorm = child("ln2", norm.create(dModel, config.eps(), device, dtype));
        feedForward =
                child("ffn", FeedForward.of(config.edition(), dModel, config.dFf(), fuser, activation, device, dtype));
    }

    @Override
    protected Tensor compute(Tensor x) {
        Tensor attended = attended(x);
        return attended.add(feedForwardOf(attended));
    }

    private Tensor feedForwardOf(Tensor x) {
        if (recomputesFeedForward) {
            return ActivationCheckpoint.apply(this::normalizedFeedForward, this::unreadFeedForward, x);
        }
        return recomputesElementwise
                ? feedForward.forwardRecomputing(feedForwardNorm, x, activations)
                : normalizedFeedForward(x);
    }

    /**
     * Returns a tensor with the shape and autograd graph of the output, but not its values. Used for the last block of
     * a checkpointed function, whose recomputation only needs the graph.
     */
    Tensor unread(Tensor x) {
        return run(() -> {
            Tensor attended = attended(x);
            return attended.add(unreadFeedForward(attended));
        });
    }

    private Tensor attended(Tensor x) {
        return x.add(
                recomputesElementwise
                        ? attention.forwardRecomputing(attentionNorm, x)
                        : attention.forward(attentionNorm.forward(x)));
    }

    private Tensor normalizedFeedForward(Tensor x) {
        return feedForward.forward(feedForwardNorm.forward(x));
    }

    private Tensor unreadFeedForward(Tensor x) {
        return feedForward.unread(feedForwardNorm.forward(x));
    }
}
