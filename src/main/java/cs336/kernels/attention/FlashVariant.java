package cs336.kernels.attention;

import cs336.kernels.runtime.Fp32Emulation;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import org.bytedeco.pytorch.Tensor;

/**
 * An implementation of the two passes of {@link FlashAttention}. All variants follow these rules:
 *
 * <ul>
 *   <li>The score of query i and key j is s[i,j] = q[i]·k[j] / √d. With a causal mask, query i attends to the keys j ≤
 *       i, counted from 0 on both sides, even if the numbers of keys and queries differ; a masked score is −∞.
 *   <li>o[i] = Σ_j exp(s[i,j] − l[i]) v[j] with the log-sum-exp l[i] = log Σ_j exp(s[i,j]).
 *   <li>A query whose scores are all −∞ gets o[i] = 0 and l[i] = −∞, and contributes no gradient.
 *   <li>Matrix multiplications accumulate in fp32, and statistics are kept in fp32; in fp64 for fp64 inputs.
 * </ul>
 */
public sealed interface FlashVariant permits TiledFlash, FirstFlash, MmaFlash, HopperFlash {
    /**
     * Selects the fastest variant for these queries: the first of {@link HopperFlash}, {@link MmaFlash} and
     * {@link TiledFlash} that supports their device, dtype and head dimension. MmaFlash multiplies fp32 inputs as one
     * TF32 multiplication if TF32 is {@linkplain Torch#allowsTf32 allowed}, otherwise as three.
     *
     * @param q queries [B, T, d] or [B, H, T, d]
     */
    static FlashVariant of(Tensor q) {
        Tensors.requireDefined("q", q);
        return of(q, false);
    }

    /**
     * Selects the fastest variant for these queries, or the fastest one that is bitwise reproducible.
     *
     * @param q queries [B, T, d] or [B, H, T, d]
     * @param deterministic whether dQ must be bitwise reproducible; all other results always are
     */
    static FlashVariant of(Tensor q, boolean deterministic) {
        Tensors.requireDefined("q", q);
        if (HopperFlash.supports(q)) {
            return new HopperFlash(deterministic);
        }
        return MmaFlash.supports(q) ? new MmaFlash(Fp32Emulation.allowed()) : TiledFlash.DEFAULT;
    }

    /**
     * The outputs of the forward pass.
     *
     * @param o attention's output, with the shape and dtype of the queries
     * @param l log-sum-exp of each query's scores: [B, T] or [B, H, T], in fp32, or in fp64 for fp64 inputs
     */
    record AttentionOutput(Tensor o, Tensor l) {}

    /** The gradients of queries, keys and values, each with the shape and dtype of its input. */
    record AttentionGradients(Tensor dQ, Tensor dK, Tensor dV) {}

    /**
     * Computes the forward pass.
     *
     * @param q queries [B, T, d] or [B, H, T, d]
     * @param k keys [B, S, d] or [B, H, S, d]
     * @param v values, of the keys' shape
     * @param causal whether query i attends to keys 0 … i only
     * @return tensors in the caller's memory scope
     */
    AttentionOutput forward(Tensor q, Tensor k, Tensor v, boolean causal);

    /**
     * Computes the backward pass.
     *
     * @param o output of the forward pass
     * @param l log-sum-exp of the forward pass
     * @param dO gradient of the output, of its shape
     * @return tensors in the caller's memory scope
     */
    AttentionGradients backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal);
}
