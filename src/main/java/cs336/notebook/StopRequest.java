package cs336.notebook;

/**
 * The error that is thrown in the thread of a running cell to end it. It is an {@link Error} so that {@code catch
 * (Exception e)} in a cell does not catch it.
 */
final class StopRequest extends Error {
    private static final long serialVersionUID = 1L;

    /** @param where the stack trace of the thread when it was asked to stop */
    StopRequest(StackTraceElement[] where) {
        super("interrupted", null, false, true);
        setStackTrace(where);
    }
}
