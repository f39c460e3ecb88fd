package cs336.basics;

import cs336.checkpointing.ActivationStore;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Objects;
import org.bytedeco.pytorch.Tensor;

/**
 * Causal multi-head self-attention without biases: [B, T, D] → [B, T, D]. Parameters {@code q_proj.weight},
 * {@code k_proj.weight}, {@code v_proj.weight}, {@code output_proj.weight}, each [D, D].
 */
public final class SelfAttention extends NnModule {
    private final int numHeads;
    private final Linear queries;
    private final Linear keys;
    private final Linear values;
    private final Linear output;
    private final Attention attention;
    private final RotaryEmbedding rotary;
    private final Fuser fuser;

    /**
     * Creates a layer with random weights.
     *
     * @param dModel D, the width of input and output
     * @param numHeads H, which must divide D
     * @param attention the implementation of attention, such as {@link Attention#named Attention.named("flash")}
     * @param rotary rotary position embedding of queries and keys, for heads of width D ÷ H; null for none. The caller
     *     closes it after the layer
     * @throws IllegalArgumentException if a size is below 1, H does not divide D, or the dtype is not floating-point
     */
    public SelfAttention(
            int dModel, int numHeads, Attention attention, RotaryEmbedding rotary, Device device, DType dtype) {
        this(dModel, numHeads, attention, rotary, new Fuser.NoFuser(), device, dtype);
    }

    /** @param fuser runs the projections of queries, keys and values */
    SelfAttention(
            int dModel,
            int numHeads,
            Attention attention,
            RotaryEmbedding rotary,
            Fuser fuser,
            Device device,
            DType dtype) {
        Objects.requireNonNull(attention, "attention must not be null");
        if (numHeads < 1 || dModel % numHeads != 0) {
            throw new IllegalArgumentException("numHeads must divide dModel " + dModel + "; it is " + numHeads);
        }
        this.numHeads = numHeads;
        this.attention = attention;
        this.rotary = rotary;
        this.fuser = fuser;
        queries = child("q_proj", new Linear(dModel, dModel, device, dtype));
        keys = child("k_proj", new Linear(dModel, dModel, device, dtype));
        values = child("v_proj", new Linear(dModel, dModel, device, dtype));
        output = child("output_proj", new Linear(dModel, dModel, device, dtype));
    }

    @Override
    protected Tensor compute(Tensor x) {
        if (x.dim() != 3) {
            throw new IllegalArgumentException(
                    "input must be [B, T, D], not of the shape " + Arrays.toString(Tensors.shape(x)));
        }
        return attended(fuser.linear(x, queries, keys, values));
    }

    /**
     * Returns the output for the input norm(x). The graph keeps x, and the backward pass computes norm(x) again.
     *
     * @param x the input of the normalization, [B, T, D]
     */
    Tensor forwardRecomputing(NnModule norm, Tensor x) {
        return run(() -> attended(fuser.linearRecomputingInput(
                ActivationStore.graph(), in -> norm.forward(in[0]), new Tensor[] {x}, queries, keys, values)));
    }

    /** @param projected queries, keys and values before position embedding, each [B, T, D] */
    private Tensor attended(Tensor... projected) {
        Tensor q = positioned(projected[0]).transpose(1, 2); // [B, H, T, d]
        Tensor k = positioned(projected[1]).transpose(1, 2);
        Tensor v = heads(projected[2]).transpose(1, 2);
        Tensor attended = attention.apply(q, k, v, true).transpose(1, 2); // [B, T, H, d]
        return output.forward(attended.flatten(-2, -1));
    }

    /** [B, T, D] → [B, T, H, d], with rotary position embedding if the model has it. */
    private Tensor positioned(Tensor x) {
        return rotary == null ? heads(x) : rotary.apply(x);
    }

    /** [B, T, D] → [B, T, H, d]. */
    private Tensor heads(Tensor x) {
        return x.view(x.size(0), x.size(1), numHeads, -1);
    }
}
