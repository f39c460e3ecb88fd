package cs336.compile.trace;

import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;

/** The names of source lines in error messages: file and line, or cell and line in a notebook. */
public final class SourceLine {
    private static volatile Function<StackTraceElement, Optional<String>> names = frame -> Optional.empty();

    private SourceLine() {}

    /**
     * Sets the names of lines whose file a reader does not know, such as those of a cell.
     *
     * @param name returns the name of a line; empty for file and line
     */
    public static void nameBy(Function<StackTraceElement, Optional<String>> name) {
        names = Objects.requireNonNull(name, "name must not be null");
    }

    /** Returns the name of a line, such as {@code Attention.java:12} or {@code cell [3], line 2}. */
    static String of(StackTraceElement frame) {
        return names.apply(frame).orElseGet(() -> frame.getFileName() + ":" + frame.getLineNumber());
    }
}
