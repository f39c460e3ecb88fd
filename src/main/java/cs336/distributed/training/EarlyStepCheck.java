package cs336.distributed.training;

import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * A check that no optimizer steps between a backward pass and {@code finishGradientSynchronization()}, when gradients
 * are not averaged yet. It compares the version counters of parameters, which an update in place increments.
 */
final class EarlyStepCheck {
    private static final long NO_VERSIONS = -1;

    private final List<Tensor> parameters;
    private long versions = NO_VERSIONS; // in the first backward pass since the last reset

    EarlyStepCheck(List<Tensor> parameters) {
        this.parameters = List.copyOf(parameters);
    }

    /** Notes that a backward pass runs. */
    void beginBackward() {
        if (versions == NO_VERSIONS) {
            versions = sum();
        }
    }

    /** Returns whether a backward pass has begun since the last reset. */
    boolean hasBegun() {
        return versions != NO_VERSIONS;
    }

    /** @throws IllegalStateException if a parameter has changed since the first backward pass */
    void requireNoStep() {
        if (versions != NO_VERSIONS && versions != sum()) {
            throw new IllegalStateException("parameters changed after a backward pass before"
                    + " finishGradientSynchronization(); call it before the optimizer's step");
        }
    }

    /** Ends the step: its gradients are averaged or discarded. */
    void reset() {
        versions = NO_VERSIONS;
    }

    private long sum() {
        return parameters.stream().mapToLong(Tensor::_version).sum();
    }
}
