package cs336.notebook;

import java.util.List;

/** The failure of a cell of a notebook; the message names notebook, cell and line. */
public final class NotebookFailure extends Exception {
    private static final long serialVersionUID = 1L;

    private final transient List<String> report;

    /**
     * Creates a failure.
     *
     * @param cell the cell, such as {@code "cell [3]"} with its execution count
     * @param line the line of the cell, from 1; 0 if unknown
     */
    NotebookFailure(String notebook, String cell, int line, String reason, List<String> report) {
        super(notebook + ", " + cell + (line == 0 ? "" : ", line " + line) + ": " + reason);
        this.report = List.copyOf(report);
    }

    /** Returns the report that a front end would show: the message and the code or stack frames. */
    public List<String> report() {
        return report;
    }
}
