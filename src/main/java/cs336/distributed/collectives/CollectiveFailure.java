package cs336.distributed.collectives;

/**
 * RankProcesses could not talk to each other: one has gone, is late beyond the timeout, or calls something else than
 * the others. The message says which collective it was, and on which rank.
 */
public final class CollectiveFailure extends RuntimeException {
    private static final long serialVersionUID = 1;

    CollectiveFailure(String message) {
        super(message);
    }

    CollectiveFailure(String message, Throwable cause) {
        super(message, cause);
    }

    /** The first line of a message from C++, without the places in the source that follow. */
    public static String reason(Throwable fromNative) {
        String first =
                String.valueOf(fromNative.getMessage()).lines().findFirst().orElse("no reason is given");
        return first.replaceFirst("^\\[[^\\]]*\\.(cc|cpp|h|hpp):\\d+\\] ", "");
    }
}
