package cs336.basics;

import java.util.ServiceLoader;
import org.bytedeco.pytorch.Tensor;

/**
 * Scaled dot-product attention softmax(QKᵀ/√d)·V, found by name, so that a model can be built with any implementation.
 * Other packages add theirs as services ({@link ServiceLoader}).
 */
public interface Attention {
    /** The name in configurations and on the command line. */
    String name();

    /**
     * Attends.
     *
     * @param q queries [B, H, T, d], or [B, T, d] without heads
     * @param k keys [B, H, S, d], or [B, S, d]
     * @param v values, of the shape of the keys
     * @param causal whether query i sees the keys 0 … i only
     * @return the shape of the queries, in the caller's memory scope
     */
    Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal);

    /**
     * Finds an implementation by name.
     *
     * @throws IllegalArgumentException if there is none of that name; the message lists those there are
     */
    static Attention named(String name) {
        return Named.find("attention", name, Attention.class, Attention::name);
    }
}
