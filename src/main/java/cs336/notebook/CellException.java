package cs336.notebook;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** An exception that ends a cell, with the line of the cell. */
public abstract sealed class CellException extends Exception {
    private static final long serialVersionUID = 1L;

    private static final String CODE = "    "; // in front of code and of stack frames

    private final int line;
    private final transient List<String> details;

    private CellException(String message, int line, List<String> details) {
        super(message);
        this.line = line;
        this.details = details.stream()
                .flatMap(String::lines)
                .flatMap(text -> text.startsWith(CODE) ? Stream.of(text) : wrapped(text))
                .toList();
    }

    /**
     * Returns the lines of a text that is broken at spaces, because JupyterLab breaks longer lines inside of words. A
     * word that fits into no line ends this.
     */
    private static Stream<String> wrapped(String text) {
        List<String> lines = new ArrayList<>();
        String rest = text;
        while (rest.length() > JavaKernel.MOST_COLUMNS) {
            int space = rest.lastIndexOf(' ', JavaKernel.MOST_COLUMNS);
            int next = rest.indexOf(' ', space + 1);
            boolean fits = (next < 0 ? rest.length() : next) - space <= JavaKernel.MOST_COLUMNS;
            if (!fits || rest.substring(0, Math.max(space, 0)).isBlank()) {
                break;
            }
            lines.add(rest.substring(0, space).stripTrailing());
            rest = "  " + rest.substring(space).strip();
        }
        lines.add(rest);
        return lines.stream();
    }

    /** Returns the line of the cell that failed, from 1; 0 if unknown. */
    public int line() {
        return line;
    }

    /** Returns the name of the error in a front end, such as {@code ArithmeticException}. */
    public abstract String name();

    /** Returns the message, followed by the code that failed or by the stack frames in cells. */
    public List<String> report() {
        return details;
    }

    /** The failure of a cell that is not valid Java. At most the statements before the error have run. */
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

    /** The failure of a cell that threw an exception. */
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

    /** The end of a cell that was interrupted. */
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
