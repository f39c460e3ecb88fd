package cs336.kernels.attention;

import org.bytedeco.pytorch.Tensor;

/**
 * A way to compute the two passes of {@link FlashAttention}. All of them keep to these rules:
 *
 * <ul>
 *   <li>The score of query i and key j is s[i,j] = q[i]·k[j] / √d. Causal means that query i sees the keys j ≤ i,
 *       counted from 0 on both sides, also where there are more keys than queries or fewer; a score that is not seen is
 *       −∞.
 *   <li>o[i] = Σ_j exp(s[i,j] − l[i]) v[j] with l[i] = log Σ_j exp(s[i,j]).
 *   <li>A query all of whose scores are −∞ gets o[i] = 0 and l[i] = −∞, and hands no gradient on.
 *   <li>Products are summed, and statistics kept, in fp32, or in fp64 for fp64 inputs.
 * </ul>
 */
public sealed interface FlashVariant permits TiledFlash, FirstFlash, MmaFlash, HopperFlash {
    /**
     * The fastest form for queries like these: {@link HopperFlash} where it takes them; else, on a card,
     * {@link MmaFlash} with fp32 as three products of TF32, which are as good as fp32; else {@link TiledFlash}.
     */
    static FlashVariant of(Tensor q) {
        return of(q, false);
    }

    /**
     * The fastest form for queries like these, or the fastest of those that repeat bit for bit.
     *
     * @param deterministic whether dQ must have the same bits each time, as all other results do anyhow
     */
    static FlashVariant of(Tensor q, boolean deterministic) {
        if (HopperFlash.takes(q)) return new HopperFlash(deterministic);
        return MmaFlash.takes(q) ? new MmaFlash(MmaFlash.Products.TF32_X3) : TiledFlash.DEFAULT;
    }

    /**
     * Outputs of the forward pass.
     *
     * @param o attention's output, of the shape and type of the queries
     * @param l log-sum-exp of each query's scores: [B, T] or [B, H, T], in fp32, or in fp64 for fp64 inputs
     */
    record Attended(Tensor o, Tensor l) {}

    /** Gradients of the inputs, each of its input's shape and type. */
    record Gradients(Tensor dQ, Tensor dK, Tensor dV) {}

    /**
     * The forward pass.
     *
     * @param q queries [B, T, d] or [B, H, T, d]
     * @param k keys [B, S, d] or [B, H, S, d]
     * @param v values, of the shape of the keys
     * @return in the caller's memory scope
     */
    Attended forward(Tensor q, Tensor k, Tensor v, boolean causal);

    /**
     * The backward pass.
     *
     * @param o output of the forward pass
     * @param l log-sum-exp of the forward pass
     * @param dO gradient of the output, of its shape
     * @return in the caller's memory scope
     */
    Gradients backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal);
}
