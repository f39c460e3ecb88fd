package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** The shards of a parameter group: this rank's own shard, and the exchange of shards between ranks. */
interface Shards extends AutoCloseable {
    /**
     * Returns this rank's shard by parameter name: whole parameters, or one-dimensional parts of them. Returns the same
     * tensors on every call; they share memory with the parameters.
     */
    Map<String, Tensor> local();

    /** Returns the offset in elements of this rank's shard within a parameter. */
    long offset(String name);

    /** Returns the bytes of each rank's shard. */
    long[] bytesPerRank();

    /**
     * Returns the collectives that average gradients on the rank that owns them, those of the last parameters first.
     *
     * @param trainable parameters of the model, including some of these
     * @throws IllegalArgumentException if ranks own whole parameters
     */
    List<GradientCollective> gradientCollectives(List<Tensor> trainable);

    /** Assigns the averaged gradients of trainable parameters to {@link #local}. */
    void assignGradients();

    /** Clears the gradients that {@link #assignGradients} assigned. */
    void clearGradients();

    /** Starts the exchange of updated parameters between ranks. */
    void startSynchronization();

    /** Waits for the exchange of updated parameters; see {@link PendingCollective#await}. */
    void await();

    /** Returns an action that waits for one parameter; null if the parameter is not in this group. */
    Runnable awaiting(Tensor parameter);

    /** Undoes the sharding: gives each parameter its own memory again, and closes the shards. */
    void undo();

    @Override
    void close();
}
