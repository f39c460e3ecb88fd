package cs336.basics;

import cs336.torch.Tensors;
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
        return Named.find("attention", name, Attention.class, Attention::name);
    }

    /**
     * Checks that the inputs can be used.
     *
     * @throws IllegalArgumentException if one is null, closed or undefined
     */
    static void requireDefined(Tensor q, Tensor k, Tensor v) {
        Tensors.requireDefined("q", q);
        Tensors.requireDefined("k", k);
        Tensors.requireDefined("v", v);
    }
}
