package cs336.basics;

import cs336.checkpointing.ActivationCheckpoint;
import cs336.checkpointing.CheckpointPlan;
import cs336.checkpointing.HostStore;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A decoder-only Transformer language model: token ids int64 [B, T] → logits [B, T, V], where T is at most the context
 * length. Ids are from 0 to V − 1; on CUDA this is not checked, and another id ends in a device assertion. Parameters
 * are named as in the course: {@code token_embeddings.weight}, {@code layers.0.attn.q_proj.weight}, …,
 * {@code ln_final.weight}, {@code lm_head.weight}. The 2024 model adds {@code position_embeddings.weight} and has no
 * separate output head.
 *
 * <p>Initialization: matrices are truncated normals with variance 2 ÷ (in + out). Embeddings have standard deviation 1
 * in the 2025 model, and 0.02 in the 2024 model, whose token embeddings also compute the logits.
 *
 * <p>{@link TransformerConfig#checkpointing} states which activations of the blocks are kept for the backward pass.
 */
public final class TransformerLM extends NnModule {
    private static final double TIED_EMBEDDING_STD = 0.02;

    private final TransformerConfig config;
    private final Device device;
    private final Embedding tokens;
    private final Embedding positions; // null with rotary position embedding
    private final RotaryEmbedding rotary; // null with learned position embeddings
    private final Fuser.FusedFunction activation;
    private final Attention attention;
    private final CheckpointPlan plan;
    private final HostStore host = new HostStore();
    private final List<TransformerBlock> layers = new ArrayList<>();
    private final NnModule finalNorm;
    private final Linear head;

    /** Creates a model with random fp32 parameters; see {@link cs336.torch.Torch#seed} for reproducible values. */
    public TransformerLM(TransformerConfig config, Device device) {
        this(config, device, DType.FLOAT32);
    }

    /**
     * Creates a model with random parameters of this dtype.
     *
     * @throws IllegalArgumentException if the model has too many blocks for its checkpointing budget, or too many
     *     positions for the rotary embedding ({@link RotaryEmbedding#hasTable})
     */
    public TransformerLM(TransformerConfig config, Device device, DType dtype) {
        plan = config.checkpointing().plan(config.numLayers()); // before anything is allocated
        this.config = config;
        this.device = device;
        int dModel = config.dModel();
        boolean tied = config.edition() == ModelEdition.SPRING_2024;
        double embeddingStd = tied ? TIED_EMBEDDING_STD : 1;
        tokens = child("token_embeddings", new Embedding(config.vocabSize(), dModel, embeddingStd, device, dtype));
        positions = tied
                ? child(
                        "position_embeddings",
                        new Embedding(config.contextLength(), dModel, embeddingStd, device, dtype))
                : null;
        Fuser fuser = Fuser.named(config.fusion());
        rotary = tied
                ? null
                : new RotaryEmbedding(
                        config.ropeTheta(), config.headDim(), config.contextLength(), fuser, device, dtype);
        activation = FeedForward.activation(fuser);
        attention = Attention.named(config.attention());
        for (int i = 0; i < config.numLayers(); i++) {
            layers.add(child(
                    "layers." + i,
                    new TransformerBlock(config, attention, rotary, fuser, activation, plan, host, i, device, dtype)));
        }
        finalNorm = child(
                "ln_final", Normalization.named(config.normalization()).create(dModel, config.eps(), device, dtype));
        head = child(
                "lm_head", tied ? new Linear(tokens.weight()) : new Linear(dModel, config.vocabSize(), device, dtype));
    }

    /** Returns the architecture of this model. */
    public TransformerConfig config() {
        return config;
    }

    /** Returns the device of the parameters. */
    public Device device() {
        return device;
    }

    /**
     * Returns the mean cross-entropy of the next tokens, like {@link Losses#crossEntropy} of the logits, without
     * storing all logits.
     *
     * @param ids int64 [B, T]
     * @param targets int64 [B, T]
     * @param rows number of tokens whose logits are in memory at a time; see {@link LinearCrossEntropy}
     * @return a 0-dimensional tensor
     * @throws IllegalArgumentException if shapes or dtypes do not match, {@code rows} is below 1, or a value on the CPU
     *     is out of range. For values on CUDA see {@link LinearCrossEntropy#of}; unlike {@link Losses#crossEntropy}, it
     *     does not ignore the target −100
     */
    public Tensor loss(Tensor ids, Tensor targets, int rows) {
        Tensors.requireDefined("ids", ids);
        return run(() -> head.crossEntropy(hidden(ids), targets, rows));
    }

    @Override
    protected Tensor compute(Tensor ids) {
        return head.forward(hidden(ids));
    }

    /** Returns the normalized output of the last block, [B, T, D]. */
    private Tensor hidden(Tensor ids) {
        requireTokenIds(ids);
        Tensor x = tokens.forward(ids); // [B, T, D]
        if (positions != null) {
            Tensor upToT = torch.arange(new Scalar(ids.size(1)), device.options(DType.INT64));
            x = x.add(positions.forward(upToT));
        }
        host.beginPass();
        for (CheckpointPlan.PlanPart part : plan.parts()) {
            Tensor next = host.endBlock(runPart(part, x));
            x.close(); // frees the memory unless the autograd graph needs it
            x = next;
        }
        return finalNorm.forward(x);
    }

    /** Runs one or several blocks, [B, T, D] → [B, T, D]. */
    private Tensor runPart(CheckpointPlan.PlanPart part, Tensor x) {
        return part instanceof CheckpointPlan.RecomputedBlocks segment
                ? ActivationCheckpoint.apply(
                        input -> runAll(segment.parts(), input, true),
                        input -> runAll(segment.parts(), input, false),
                        x)
                : layers.get(((CheckpointPlan.KeptBlock) part).index()).forward(x);
    }

    /** @param read whether the output's values are needed; if not, only its autograd graph is */
    private Tensor runAll(List<CheckpointPlan.PlanPart> parts, Tensor input, boolean read) {
        Tensor x = input;
        for (int i = 0; i < parts.size(); i++) {
            boolean unread = !read && i == parts.size() - 1;
            Tensor next = unread && parts.get(i) instanceof CheckpointPlan.KeptBlock block
                    ? layers.get(block.index()).unread(x)
                    : runPart(parts.get(i), x);
            if (x != input) {
                x.close();
            }
            x = next;
        }
        return x;
    }

    private void requireTokenIds(Tensor ids) {
        if (ids.dim() != 2 || DType.of(ids) != DType.INT64) {
            throw new IllegalArgumentException("ids must be an int64 tensor with 2 dimensions [batch, context], not "
                    + DType.of(ids) + " with " + ids.dim() + " dimensions");
        }
        if (ids.numel() == 0) {
            throw new IllegalArgumentException(
                    "ids must contain at least one token, not have the shape " + Arrays.toString(Tensors.shape(ids)));
        }
        if (ids.size(1) > config.contextLength()) {
            throw new IllegalArgumentException("ids must have a context length of at most " + config.contextLength()
                    + " tokens, not " + ids.size(1));
        }
        if (!Device.of(ids).equals(device)) {
            throw new IllegalArgumentException(
                    "ids must be on " + device + ", the device of the model, not on " + Device.of(ids));
        }
    }

    @Override
    public void close() {
        super.close();
        attention.freeCache();
        activation.close();
        if (rotary != null) {
            rotary.close();
        }
    }
}
