package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import org.bytedeco.pytorch.Tensor;

/** What travels in one all-reduce: one gradient as it lies in memory, or a bucket of them. */
interface GradientCollective extends AutoCloseable {
    /** Places of the parameters whose gradients it carries. */
    int[] members();

    /**
     * Collects the gradients. Afterwards each member's {@code grad()} is in the tensor that is returned; of one that
     * has no gradient it is 0.
     *
     * @param present takes for each member, at its place, whether it had a gradient
     * @return contiguous memory, in the caller's memory scope or the message's own
     */
    Tensor collect(boolean[] present);

    /** Begins to average what {@link #collect} gave: on all ranks all of it, unless the message says otherwise. */
    default PendingCollective send(ProcessGroup group, Tensor gradients) {
        return group.allReduceAsync(gradients, Reduction.AVERAGE);
    }

    /** Frees the message's own memory. Gradients that lie in it live on. */
    @Override
    void close();
}
