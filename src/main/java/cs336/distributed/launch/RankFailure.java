package cs336.distributed.launch;

import cs336.distributed.collectives.RankWatch;
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
        this(rank, "rank " + rank + " of " + size + ": " + reason, false, FAILED);
    }

    /**
     * Creates a failure of this process.
     *
     * @param first the first failure of the run; null if unknown
     */
    static RankFailure here(World world, RankWorker.Failed failed, RankWatch.FirstFailure first) {
        String reason = failed.reason();
        boolean isFirst = first == null || first.rank() == world.rank();
        if (!isFirst) {
            reason += "; first failure: rank " + first.rank() + " of " + world.size() + ": " + first.reason();
        }
        return new RankFailure(
                isFirst ? world.rank() : first.rank(),
                "rank " + world.rank() + " of " + world.size() + ": "
                        + (failed.amongRanks() ? reason : reason + "\n" + failed.trace()),
                true,
                failed.amongRanks() ? LOST_OTHER_RANKS : FAILED);
    }

    private RankFailure(int rank, String message, boolean here, int exitCode) {
        super(message);
        this.rank = rank;
        this.here = here;
        this.exitCode = exitCode;
    }

    /** Returns the rank that failed first, as far as known. */
    public int rank() {
        return rank;
    }

    /**
     * Returns whether this process is a failed rank. Its native threads may be stuck in a collective, so it must end
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
