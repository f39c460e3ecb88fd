package cs336.notebook;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import java.util.List;

/**
 * A message from the process that executes a notebook to the runner, one line of JSON.
 *
 * @param kind the kind of event
 * @param cell the index of the cell in the request; in STARTED events
 * @param output an output in the format of notebook files; in OUTPUT and UPDATED events
 * @param displayId the id of an output that can be replaced later; null for others
 * @param failure the failure of the cell; null if it succeeded, and in events other than ENDED
 */
record NotebookEvent(Kind kind, int cell, JsonObject output, String displayId, Failure failure) {
    private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();

    /** The kind of an event in the process of a notebook. */
    enum Kind {
        STARTED,
        OUTPUT,
        UPDATED,
        ENDED,
        FINISHED
    }

    /** The failure of a cell: the line, from 1 or 0 if unknown, the reason, and the report for the user. */
    record Failure(int line, String reason, List<String> report) {}

    /**
     * The cells that a process executes, one line of JSON.
     *
     * @param timeLimitMs the time limit of each cell
     * @param keepsGoing whether the cells after a failed one are executed, too
     */
    record Request(List<CodeCell> cells, long timeLimitMs, boolean keepsGoing) {
        static Request parse(String line) {
            return JSON.fromJson(line, Request.class);
        }

        String line() {
            return JSON.toJson(this);
        }
    }

    /** The source of a code cell, and whether it may fail. */
    record CodeCell(String source, boolean mayFail) {}

    static NotebookEvent started(int cell) {
        return new NotebookEvent(Kind.STARTED, cell, null, null, null);
    }

    static NotebookEvent output(JsonObject output, String displayId) {
        return new NotebookEvent(Kind.OUTPUT, 0, output, displayId, null);
    }

    static NotebookEvent updated(JsonObject output, String displayId) {
        return new NotebookEvent(Kind.UPDATED, 0, output, displayId, null);
    }

    static NotebookEvent ended(Failure failure) {
        return new NotebookEvent(Kind.ENDED, 0, null, null, failure);
    }

    static NotebookEvent finished() {
        return new NotebookEvent(Kind.FINISHED, 0, null, null, null);
    }

    static NotebookEvent parse(String line) {
        return JSON.fromJson(line, NotebookEvent.class);
    }

    String line() {
        return JSON.toJson(this);
    }
}
