package cs336.distributed.launch;

import cs336.distributed.collectives.RankWatch;
import cs336.distributed.collectives.World;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;

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
    private final transient Path report;

    /** Creates a failure of a process that this one started. */
    RankFailure(int rank, int size, String reason) {
        this(rank, "rank " + rank + " of " + size + ": " + reason, false, FAILED, null);
    }

    /** Returns the same failure with this error file, which may be null. */
    RankFailure withReport(Path file) {
        var failure = new RankFailure(rank, getMessage(), here, exitCode, file);
        failure.setStackTrace(getStackTrace());
        return failure;
    }

    /**
     * Creates a failure of this process.
     *
     * @param first the first failure of the run; null if unknown
     */
    static RankFailure here(World world, RankWorker.Failed failed, RankWatch.FirstFailure first) {
        boolean isFirst = first == null || first.rank() == world.rank();
        String cause =
                isFirst ? "" : "; first failure: rank " + first.rank() + " of " + world.size() + ": " + first.reason();
        String message = failed.message().replaceFirst("\n|$", Matcher.quoteReplacement(cause) + "$0");
        var failure = new RankFailure(
                isFirst ? world.rank() : first.rank(),
                "rank " + world.rank() + " of " + world.size() + ": " + message,
                true,
                failed.amongRanks() ? LOST_OTHER_RANKS : FAILED,
                null);
        var state = new FailureReport.RankState(world.rank(), failed.reason(), failed.lastCalls(), failed.trace());
        return failure.withReport(FailureReport.write(failure.getMessage(), List.of(state)));
    }

    private RankFailure(int rank, String message, boolean here, int exitCode, Path report) {
        super(message);
        this.report = report;
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

    /**
     * Returns the error file with the last collectives of each rank, or of this rank if {@link #isHere}; null if it
     * could not be written. It is in the folder that the environment variable {@value FailureReport#FOLDER} names, by
     * default the folder for temporary files. In either folder only the newest {@value FailureReport#MOST_FILES} error
     * files are kept.
     */
    public Path report() {
        return report;
    }

    /** Returns the exit code for the shell: 1, or 3 if this rank only lost contact with another one. */
    public int exitCode() {
        return exitCode;
    }
}
