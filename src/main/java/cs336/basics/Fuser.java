package cs336.basics;

import cs336.checkpointing.ActivationCheckpoint;
import cs336.checkpointing.ActivationStore;
import java.util.ServiceLoader;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/**
 * An implementation of the memory-bound operations of a model, with or without kernel fusion. These operations are
 *
 * <ul>
 *   <li>the elementwise multiplication silu(W₁·x) ∘ W₃·x of SwiGLU;
 *   <li>the rotary position embedding;
 *   <li>the sum of input gradients where several linear layers have the same input.
 * </ul>
 *
 * <p>A model configuration selects an implementation by name. Other packages register theirs as services
 * ({@link ServiceLoader}).
 *
 * <p>PyTorch runs each of their operators as a kernel that reads and writes whole tensors. A fused kernel reads each
 * input once and writes each output once.
 */
public interface Fuser {
    /** The name of the implementation that runs each operator separately. */
    String NONE = "none";

    /** Returns the name of this implementation in configurations and on the command line. */
    String name();

    /**
     * Returns an executable form of a function, which the caller closes.
     *
     * @param function depends on its inputs and on constants only
     */
    FusedFunction of(Function<Tensor[], Tensor> function);

    /**
     * Returns the outputs of linear layers with the same input. By default the layers run separately.
     *
     * @param x […, in]
     * @return a tensor […, out] for each layer, in the caller's memory scope
     */
    default Tensor[] linear(Tensor x, Linear... layers) {
        return Linear.separately(x, layers);
    }

    /**
     * Returns tensors with the shapes and the autograd graph of {@link #linear}, but not its values. The matrix
     * multiplications with the layers' weights are omitted. A recomputed function uses this method for its last layers,
     * because the backward pass does not read their outputs. By default the layers have separate graphs.
     *
     * @param x […, in]
     * @return a tensor […, out] for each layer, in the caller's memory scope
     */
    default Tensor[] unreadLinear(Tensor x, Linear... layers) {
        return Linear.separatelyUnread(x, layers);
    }

    /**
     * Returns the outputs of linear layers whose common input f(inputs) is recomputed in the backward pass, which does
     * not repeat the matrix multiplications.
     *
     * @param store keeps the inputs of f
     * @param function f, which returns a tensor […, in]
     * @param inputs the inputs of f, which are kept instead of its result
     * @return a tensor […, out] for each layer, in the caller's memory scope
     */
    default Tensor[] linearRecomputingInput(
            ActivationStore store, Function<Tensor[], Tensor> function, Tensor[] inputs, Linear... layers) {
        return ActivationCheckpoint.applyAll(
                store,
                in -> linear(function.apply(in), layers),
                in -> unreadLinear(function.apply(in), layers),
                inputs);
    }

    /**
     * Returns the implementation of this name.
     *
     * @throws IllegalArgumentException if there is none; the message lists the known names
     */
    static Fuser named(String name) {
        return Services.named("fusion", name, Fuser.class, Fuser::name);
    }

    /** A differentiable function of tensors. */
    interface FusedFunction extends AutoCloseable {
        /** Returns the value of the function, in the caller's memory scope. */
        Tensor apply(Tensor... inputs);

        /** Frees compiled kernels and cached tensors. The function must not be called afterwards. */
        @Override
        void close();
    }

    /** The {@link Fuser} {@code none}, which fuses nothing. */
    final class NoFuser implements Fuser {
        @Override
        public String name() {
            return NONE;
        }

        @Override
        public FusedFunction of(Function<Tensor[], Tensor> function) {
            return new FusedFunction() {
                @Override
                public Tensor apply(Tensor... inputs) {
                    return function.apply(inputs);
                }

                @Override
                public void close() {
                    // nothing was prepared
                }
            };
        }
    }
}
