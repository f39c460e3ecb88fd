package cs336.basics;

import cs336.torch.ShardedParameters;
import java.util.Map;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Tensor;

/**
 * An algorithm that updates parameters in place from their gradients. It skips parameters without a gradient or without
 * {@code requires_grad}, and leaves their state unchanged.
 *
 * <p>Optimizer state belongs to no memory scope; {@link #step} frees all other tensors that it creates.
 */
public interface Optimizer extends AutoCloseable {
    /** Returns the parameters by name, in the order in which they were added. */
    Map<String, Tensor> parameters();

    /**
     * Updates every parameter that has a gradient, in the {@link cs336.torch.ProfilerRange} {@code optimizer}. The
     * gradients are not zeroed; see {@link #zeroGrad}.
     *
     * @throws IllegalStateException if the optimizer is closed, or a container that shards the parameters has not
     *     reduced their gradients yet
     */
    void step();

    /**
     * Computes gradients and updates the parameters, like {@code step(closure)} of {@code torch.optim}.
     *
     * @param closure zeroes the gradients, runs forward and backward pass, and returns the loss
     * @return the loss that the closure returned
     */
    default Tensor step(Supplier<Tensor> closure) {
        Tensor loss = closure.get();
        step();
        return loss;
    }

    /**
     * Combines the overflow flags of all processes that train the same model, so that either all of them step or none.
     * {@link GradScaler} calls it after it has checked the gradients of this process. Does nothing by default.
     *
     * @param foundInf fp32 []: 1 if a gradient is inf or NaN, else 0; replaced by the maximum over all processes
     */
    default void agreeOnOverflow(Tensor foundInf) {}

    /**
     * Frees all gradients, like {@code zero_grad(set_to_none=True)}: they are undefined until the next backward pass.
     *
     * @throws IllegalStateException if a container that shards the parameters has not reduced their gradients yet
     */
    default void zeroGrad() {
        ShardedParameters.requireReduced(parameters().values());
        parameters().values().forEach(parameter -> parameter.mutable_grad().reset());
    }

    /** Returns the learning rate of the next step. */
    double learningRate();

    /**
     * Sets the learning rate of the next steps.
     *
     * @throws IllegalArgumentException if it is negative or not finite
     */
    void setLearningRate(double learningRate);

    /**
     * Returns the optimizer state by name, such as {@code <parameter>.m}; empty before the first step or if the
     * optimizer has no state. Moments are the tensors in use, not copies: the next step changes them. Step counts are
     * new int64 tensors in the caller's memory scope.
     */
    Map<String, Tensor> state();

    /** Returns the name of the optimizer in checkpoints, which is the simple name of its class. */
    default String kind() {
        return getClass().getSimpleName();
    }

    /**
     * Checks that {@link #loadState} would accept this state, without changing anything.
     *
     * @throws IllegalArgumentException if an entry belongs to no parameter, a parameter has only some of its tensors,
     *     or a shape or dtype differs
     */
    void requireLoadable(Map<String, Tensor> state);

    /**
     * Copies a state that {@link #state} returned. Parameters without an entry are reset to their state before the
     * first step.
     *
     * @throws IllegalArgumentException if an entry belongs to no parameter, a parameter has only some of its tensors,
     *     or a shape or dtype differs; then nothing changes
     */
    void loadState(Map<String, Tensor> state);

    /**
     * Frees the optimizer state, but not the parameters. Afterwards, methods that read or change parameters or state
     * throw {@link IllegalStateException}.
     */
    @Override
    void close();
}
