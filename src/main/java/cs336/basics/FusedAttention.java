package cs336.basics;

import cs336.torch.JavaOperator;
import cs336.torch.Tensors;
import java.util.Optional;
import java.util.ServiceLoader;
import org.bytedeco.pytorch.Tensor;

/**
 * A provider of kernels for {@link Attention} that do not store the scores [T, S]. A compiler replaces plain attention
 * by their operators. Providers are registered as services ({@link ServiceLoader}).
 */
public interface FusedAttention {
    /**
     * The two passes of attention.
     *
     * @param forward q, k, v → output o, shaped like q, and the log-sum-exp l of each query's scores in fp32 (fp64 for
     *     fp64 inputs), shaped like q without d
     * @param backward q, k, v, o, l, gradient of o → gradients of q, k and v
     */
    record FusedAttentionPasses(JavaOperator forward, JavaOperator backward) {}

    /**
     * Returns bitwise reproducible operators for queries like these.
     *
     * @param q [B, H, T, d] or [B, T, d]; only its dtype, shape and device matter
     * @param causal whether query i attends only to the keys 0 … i
     * @return empty if the dtype, the shape or the device has no kernel
     */
    Optional<FusedAttentionPasses> passes(Tensor q, boolean causal);

    /** Returns the operators of the first registered service that supports these queries. */
    static Optional<FusedAttentionPasses> find(Tensor q, boolean causal) {
        Tensors.requireDefined("q", q);
        return Services.of(FusedAttention.class)
                .flatMap(service -> service.passes(q, causal).stream())
                .findFirst();
    }
}
