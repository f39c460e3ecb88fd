package cs336.notebook;

import java.util.List;

/** Why a cell did not finish: short, and pointing at a line of the cell. */
public abstract sealed class CellException extends Exception {
    private static final long serialVersionUID = 1L;

    private final int line;
    private final transient List<String> details;

    private CellException(String message, int line, List<String> details) {
        super(message);
        this.line = line;
        this.details = List.copyOf(details);
    }

    /** The line of the cell at fault, from 1; 0 when it cannot be told. */
    public int line() {
        return line;
    }

    /** The name by which a front end shows this error, such as {@code ArithmeticException}. */
    public abstract String name();

    /** The message, and below it the offending code or the frames that lie in cells. */
    public List<String> report() {
        return details;
    }

    /** The cell is not valid Java; none of it ran, or only the statements before the one at fault. */
    public static final class CompilationFailed extends CellException {
        private static final long serialVersionUID = 1L;

        CompilationFailed(String message, int line, List<String> details) {
            super(message, line, details);
        }

        @Override
        public String name() {
            return "CompilationError";
        }
    }

    /** The cell threw an exception. */
    public static final class ExceptionThrown extends CellException {
        private static final long serialVersionUID = 1L;

        private final String className;

        ExceptionThrown(String className, String message, int line, List<String> details) {
            super(message, line, details);
            this.className = className;
        }

        @Override
        public String name() {
            return className.substring(className.lastIndexOf('.') + 1);
        }
    }

    /** The cell was interrupted. */
    public static final class Interrupted extends CellException {
        private static final long serialVersionUID = 1L;

        Interrupted(int line, List<String> details) {
            super("interrupted" + (line == 0 ? "" : " at line " + line), line, details);
        }

        @Override
        public String name() {
            return "Interrupted";
        }
    }
}
