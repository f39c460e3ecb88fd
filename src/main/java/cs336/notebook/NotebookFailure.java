package cs336.notebook;

import java.util.List;

/** A notebook that stopped at a cell; the message names notebook, cell and line. */
public final class NotebookFailure extends Exception {
    private static final long serialVersionUID = 1L;

    private final transient List<String> report;

    /**
     * A failure.
     *
     * @param cell such as {@code "cell [3]"}, by its execution count
     * @param line of the cell, from 1; 0 when it is not known
     */
    NotebookFailure(String notebook, String cell, int line, String reason, List<String> report) {
        super(notebook + ", " + cell + (line == 0 ? "" : ", line " + line) + ": " + reason);
        this.report = List.copyOf(report);
    }

    /** What the cell would show in a front end: the message, and the offending code or frames. */
    public List<String> report() {
        return report;
    }
}
