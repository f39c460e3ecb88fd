package cs336.basics;

import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.ServiceLoader;
import org.bytedeco.pytorch.Tensor;

/**
 * Scaled dot-product attention softmax(QKᵀ/√d)·V. A model configuration selects an implementation by name; other
 * packages register theirs as services ({@link ServiceLoader}).
 */
public interface Attention {
    /** Returns the name of the implementation in configurations and on the command line. */
    String name();

    /**
     * Returns the attention output.
     *
     * @param q queries [B, H, T, d], or [B, T, d] without heads
     * @param k keys [B, H, S, d], or [B, S, d]
     * @param v values, shaped like the keys
     * @param causal whether query i attends only to the keys 0 … i
     * @return a tensor shaped like the queries, in the caller's memory scope
     * @throws IllegalArgumentException if {@link #requireInputs} rejects the inputs, or the implementation does not
     *     support them
     */
    Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal);

    /** Frees cached tensors. The implementation remains usable. */
    default void freeCache() {}

    /**
     * Returns the implementation of this name.
     *
     * @throws IllegalArgumentException if there is none; the message lists the known names
     */
    static Attention named(String name) {
        return Services.named("attention", name, Attention.class, Attention::name);
    }

    /**
     * Checks that the inputs can be used.
     *
     * @throws IllegalArgumentException if one is null, closed or undefined, or their shapes or dtypes do not match
     */
    static void requireInputs(Tensor q, Tensor k, Tensor v) {
        Tensors.requireFloating("q", q);
        Tensors.requireFloating("k", k);
        Tensors.requireFloating("v", v);
        long[] queries = Tensors.shape(q), keys = Tensors.shape(k), values = Tensors.shape(v);
        int n = queries.length;
        boolean match = (n == 3 || n == 4)
                && keys.length == n
                && Arrays.equals(queries, 0, n - 2, keys, 0, n - 2)
                && queries[n - 1] == keys[n - 1];
        if (!match || !Arrays.equals(keys, values)) {
            throw new IllegalArgumentException("q, k and v must have the shapes [B, H, T, d], [B, H, S, d] and"
                    + " [B, H, S, d], or the same without H, not " + Arrays.toString(queries) + ", "
                    + Arrays.toString(keys) + " and " + Arrays.toString(values));
        }
        DType dtype = DType.of(q);
        boolean isCast = Autocast.isEnabled(q);
        if (!isCast && (DType.of(k) != dtype || DType.of(v) != dtype)) {
            throw new IllegalArgumentException(
                    "q, k and v must have the same dtype, not " + dtype + ", " + DType.of(k) + " and " + DType.of(v));
        }
    }
}
