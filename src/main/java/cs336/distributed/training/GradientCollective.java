package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/** One collective of the gradient synchronization: the gradient of one parameter, or a bucket of gradients. */
interface GradientCollective extends AutoCloseable {
    /** Returns the indices of the parameters whose gradients it averages. */
    int[] members();

    /**
     * Collects the gradients in one tensor. Afterwards each member's {@code grad()} is in this tensor; a missing
     * gradient is replaced by zeros.
     *
     * @param names the names of all parameters
     * @param present receives for each member, at its index, whether it had a gradient
     * @return a contiguous tensor, in the caller's memory scope or owned by this object
     * @throws IllegalStateException if a gradient is sparse
     */
    Tensor collect(List<String> names, boolean[] present);

    /** Starts to average the collected gradients over all ranks; by default with an all-reduce. */
    default PendingCollective start(ProcessGroup group, Tensor gradients) {
        return group.allReduceAsync(gradients, Reduction.AVERAGE);
    }

    /**
     * Checks that no gradient is the result of an earlier reduction, if this collective cannot average a result again.
     *
     * @param names the names of all parameters
     * @throws IllegalStateException if one is
     */
    default void requireZeroed(List<String> names) {}

    /**
     * Checks that collectives can send a gradient.
     *
     * @param name the name of the parameter
     * @throws IllegalStateException if the gradient is sparse
     */
    static void requireDense(String name, Tensor gradient) {
        if (gradient.is_sparse()) {
            throw new IllegalStateException("the gradient of parameter " + name
                    + " is sparse; only dense gradients can be averaged over ranks, so use dense ones");
        }
    }

    /** Frees the memory of this object. Gradients that are in it remain valid. */
    @Override
    void close();
}
