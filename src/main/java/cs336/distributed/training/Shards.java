package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * Parameters with the same settings, divided among ranks: what of them is this rank's own, and how all come together.
 */
interface Shards extends AutoCloseable {
    /**
     * What this rank updates, by the parameter's name: parameters, or stretches of them of one dimension. The same
     * tensors always; they see each change of the parameters, and the parameters theirs.
     */
    Map<String, Tensor> own();

    /** The first number of a parameter that is this rank's own. */
    long first(String name);

    /** Bytes that each rank owns. */
    long[] bytes();

    /**
     * Messages that average gradients where they are owned, those of the last parameters first.
     *
     * @param learning parameters, of which some are these
     * @throws IllegalArgumentException if parameters are owned as a whole
     */
    List<GradientCollective> gradients(List<Tensor> learning);

    /** Gives {@link #own} the averaged gradients of the parameters, where they have any and are to be updated. */
    void bringGradients();

    /** Lets go of what {@link #bringGradients} gave. */
    void dropGradients();

    /** Begins to bring what ranks have updated to the others. */
    void send();

    /** What is sent arrives before anything else happens; see {@link PendingCollective#await}. */
    void arrive();

    /** What makes sure that this parameter has arrived; null if it is none of these. */
    Runnable arrivalOf(Tensor parameter);

    /** Closes these shards as if they had never been: parameters have memory of their own again. */
    void giveUp();

    @Override
    void close();
}
