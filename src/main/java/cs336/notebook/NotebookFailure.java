package cs336.notebook;

import java.util.List;

/** A notebook that stopped at a cell; the message names notebook, cell and line. */
public final class NotebookFailure extends Exception {
    private static final long serialVersionUID = 1L;

    private final transient List<String> report;

    NotebookFailure(String notebook, int cell, int line, String reason, List<String> report) {
        super(notebook + ", cell [" + cell + "]" + (line == 0 ? "" : ", line " + line) + ": " + withoutPlace(reason));
        this.report = List.copyOf(report);
    }

    private static String withoutPlace(String reason) {
        return reason.replaceFirst("^cell \\[\\d+], line \\d+: ", "");
    }

    /** What the cell would show in a front end: the message, and the offending code or frames. */
    public List<String> report() {
        return report;
    }
}
