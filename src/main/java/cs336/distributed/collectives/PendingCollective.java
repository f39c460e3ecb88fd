package cs336.distributed.collectives;

/**
 * An asynchronous collective in progress; c10d calls it {@code Work}. Its tensors must not be read or written before
 * {@link #await()}. Until then it keeps them alive, independently of memory scopes.
 */
public interface PendingCollective {
    /**
     * Blocks until the result may be used: with Gloo until it has arrived; with NCCL not at all, since later kernels on
     * the current stream of the calling thread run after the collective. A second call does nothing, or throws the same
     * exception again.
     *
     * @throws CollectiveFailure if the collective failed or, with Gloo, took longer than the group's timeout; with NCCL
     *     c10d's watchdog then aborts the process
     */
    void await();
}
