package cs336.distributed.collectives;

/**
 * A failed collective or rendezvous: another rank has exited, did not respond within the timeout, or called a different
 * collective. The message names the collective and the rank.
 */
public final class CollectiveFailure extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final boolean isDivergence;

    CollectiveFailure(String message) {
        this(message, null);
    }

    CollectiveFailure(String message, Throwable cause) {
        this(message, cause, false);
    }

    CollectiveFailure(String message, Throwable cause, boolean isDivergence) {
        super(message, cause);
        this.isDivergence = isDivergence;
    }

    /** Returns whether two ranks have called different collectives, which the message names. */
    public boolean isDivergence() {
        return isDivergence;
    }

    /** Returns the first line of a C++ exception's message, without its source location. */
    public static String reason(Throwable fromNative) {
        String first =
                String.valueOf(fromNative.getMessage()).lines().findFirst().orElse("no reason given");
        return first.replaceFirst("^\\[[^\\]]*\\.(cc|cpp|h|hpp):\\d+\\] ", "");
    }
}
