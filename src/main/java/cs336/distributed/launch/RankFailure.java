package cs336.distributed.launch;

import cs336.distributed.collectives.World;

/**
 * A failure of one rank, after which all ranks were ended. The first line of the message names the rank and the cause;
 * the rank's stack trace or last output may follow. {@link RankProcesses} detects failures and names the rank.
 */
public final class RankFailure extends RuntimeException {
    private static final long serialVersionUID = 1;

    private static final int FAILED = 1;
    private static final int LOST_OTHER_RANKS = 3;

    private final int rank;
    private final boolean here;
    private final int exitCode;

    /** Creates a failure of a process that this one started. */
    RankFailure(int rank, int size, String reason) {
        this(rank, size, reason, false, FAILED);
    }

    /** Creates a failure of this process. */
    RankFailure(World world, RankWorker.Failed failed) {
        this(
                world.rank(),
                world.size(),
                failed.amongRanks() ? failed.reason() : failed.reason() + "\n" + failed.trace(),
                true,
                failed.amongRanks() ? LOST_OTHER_RANKS : FAILED);
    }

    private RankFailure(int rank, int size, String reason, boolean here, int exitCode) {
        super("rank " + rank + " of " + size + ": " + reason);
        this.rank = rank;
        this.here = here;
        this.exitCode = exitCode;
    }

    /** Returns the rank that failed first, as far as known. */
    public int rank() {
        return rank;
    }

    /**
     * Returns whether this process is the failed rank. Its native threads may be stuck in a collective, so it must end
     * with {@link cs336.torch.ProcessEnd}.
     */
    public boolean isHere() {
        return here;
    }

    /** Returns the exit code for the shell: 1, or 3 if this rank only lost contact with another one. */
    public int exitCode() {
        return exitCode;
    }
}
