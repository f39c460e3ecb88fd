package cs336.compile.trace;

/**
 * The exception for a function of tensors that cannot be recorded as a program. The message says why and, if an
 * operator is the reason, where it was called.
 */
public final class UnrecordableException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    UnrecordableException(String reason, String source) {
        this(reason, source, null);
    }

    UnrecordableException(String reason, String source, Throwable cause) {
        super("the function cannot be recorded: " + reason + (source.isEmpty() ? "" : ", called at " + source), cause);
    }
}
