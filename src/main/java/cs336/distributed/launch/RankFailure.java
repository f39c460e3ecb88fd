package cs336.distributed.launch;

import cs336.distributed.collectives.World;

/**
 * One of the ranks failed, and all were ended for it. The first line of the message names the rank and the cause; what
 * follows, where there is more, are the rank's stack trace or its last lines.
 */
public final class RankFailure extends RuntimeException {
    private static final long serialVersionUID = 1;

    private static final int FAILED = 1;
    private static final int LOST_THE_OTHERS = 3;

    private final int rank;
    private final boolean here;
    private final int exitCode;

    /** Of one of the processes that this one has started, and ended. */
    RankFailure(int rank, int size, String reason) {
        this(rank, size, reason, false, FAILED);
    }

    /** Of this process itself. */
    RankFailure(World world, RankWorker.Failed failed) {
        this(
                world.rank(),
                world.size(),
                failed.amongRanks() ? failed.reason() : failed.reason() + "\n" + failed.trace(),
                true,
                failed.amongRanks() ? LOST_THE_OTHERS : FAILED);
    }

    private RankFailure(int rank, int size, String reason, boolean here, int exitCode) {
        super("rank " + rank + " of " + size + ": " + reason);
        this.rank = rank;
        this.here = here;
        this.exitCode = exitCode;
    }

    /** The rank that failed first, as far as can be told. */
    public int rank() {
        return rank;
    }

    /**
     * Whether this process is the rank. Its native threads may be stuck in a collective for good: what is left to do is
     * {@link cs336.torch.ProcessEnd}.
     */
    public boolean isHere() {
        return here;
    }

    /** For the shell: 1, or 3 where this process has only lost the others, and one of them knows more. */
    public int exitCode() {
        return exitCode;
    }
}
