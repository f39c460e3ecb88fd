package cs336.distributed.collectives;

/**
 * A collective under way. Its tensors must neither be read nor written before {@link #await()}; until then it keeps
 * them alive, whatever memory scope they were made in.
 */
public interface PendingCollective {
    /**
     * Returns once the result may be used: with Gloo when it is there; with NCCL at once, and what the calling thread
     * queues on its current stream from now on runs after it. A second call does nothing, or throws the same again.
     *
     * @throws CollectiveFailure if it failed or took longer than the group's timeout
     */
    void await();
}
