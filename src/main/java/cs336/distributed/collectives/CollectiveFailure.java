package cs336.distributed.collectives;

/**
 * A failed collective or rendezvous: another rank has exited, did not respond within the timeout, or called a different
 * collective. The message names the collective and the rank.
 */
public final class CollectiveFailure extends RuntimeException {
    private static final long serialVersionUID = 1;

    CollectiveFailure(String message) {
        super(message);
    }

    CollectiveFailure(String message, Throwable cause) {
        super(message, cause);
    }

    /** Returns the first line of a C++ exception's message, without its source location. */
    public static String reason(Throwable fromNative) {
        String first =
                String.valueOf(fromNative.getMessage()).lines().findFirst().orElse("no reason given");
        return first.replaceFirst("^\\[[^\\]]*\\.(cc|cpp|h|hpp):\\d+\\] ", "");
    }
}
