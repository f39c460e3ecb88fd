package cs336.notebook;

/**
 * Thrown into the thread of a running cell to end it; an error, so that a cell's {@code catch (Exception e)} lets it
 * pass.
 */
final class StopRequest extends Error {
    private static final long serialVersionUID = 1L;

    /** @param where what the thread was doing when it was asked to stop; becomes the stack trace */
    StopRequest(StackTraceElement[] where) {
        super("interrupted", null, false, true);
        setStackTrace(where);
    }
}
