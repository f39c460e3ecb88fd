package cs336.distributed.training;

/**
 * A scope of local gradient accumulation; see {@link DistributedDataParallel#noSync} and
 * {@link FullyShardedDataParallel#noSync}.
 */
public final class NoSync implements AutoCloseable {
    private Runnable atEnd;

    NoSync(Runnable atEnd) {
        this.atEnd = atEnd;
    }

    /** Ends the scope. A second call does nothing. */
    @Override
    public void close() {
        Runnable action = atEnd;
        atEnd = () -> {};
        action.run();
    }
}
