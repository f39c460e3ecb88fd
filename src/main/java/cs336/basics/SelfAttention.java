package cs336.basics;

import cs336.checkpointing.ActivationStore;
import cs336.torch.DType;
import cs336.torch.Device;
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
     * @param attention the implementation of attention
     * @param rotary rotary position embedding of queries and keys; null if position embeddings are learned
     * @param fuser runs the projections of queries, keys and values
     */
    SelfAttention(
            int dModel,
            int numHeads,
            Attention attention,
            RotaryEmbedding rotary,
            Fuser fuser,
            Device device,
            DType dtype) {
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
