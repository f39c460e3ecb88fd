package cs336.basics;

import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * Changes parameters in place by their gradients. A parameter without a gradient, or with {@code requires_grad} off, is
 * left as it is, and so is what the optimizer remembers of it.
 *
 * <p>What an optimizer keeps from step to step is in no memory scope; a step frees all else that it makes.
 */
public interface Optimizer extends AutoCloseable {
    /** The parameters by name, in the order they were given. */
    Map<String, Tensor> parameters();

    /** Updates every parameter that has a gradient, in the {@link cs336.torch.ProfilerRange} {@code optimizer}. */
    void step();

    /** Drops all gradients: they are undefined, not zero, until the next backward pass, and take no memory. */
    default void zeroGrad() {
        parameters().values().forEach(parameter -> parameter.mutable_grad().reset());
    }

    /** The learning rate of the next step. */
    double learningRate();

    /**
     * Sets the learning rate of the next step, as a schedule does.
     *
     * @throws IllegalArgumentException if it is negative or not finite
     */
    void setLearningRate(double learningRate);

    /**
     * What the optimizer remembers, by name: {@code <parameter>.<what>}. Empty before the first step. These are the
     * tensors in use, not copies.
     */
    Map<String, Tensor> state();

    /** Whose state this is, as a checkpoint names it: the optimizer's class. */
    default String kind() {
        return getClass().getSimpleName();
    }

    /**
     * Checks that {@link #loadState} would take this state; nothing changes.
     *
     * @throws IllegalArgumentException if a name is unknown or incomplete, or a shape or dtype differs
     */
    void requireLoadable(Map<String, Tensor> state);

    /**
     * Takes over a state that {@link #state} gave, by copying; what it does not name is as before the first step.
     *
     * @throws IllegalArgumentException if a name is unknown or incomplete, or a shape or dtype differs; then nothing
     *     changes
     */
    void loadState(Map<String, Tensor> state);

    /** Frees what the optimizer remembers; it cannot be used afterwards. The parameters stay. */
    @Override
    void close();
}
