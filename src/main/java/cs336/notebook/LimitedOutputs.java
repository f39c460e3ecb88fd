package cs336.notebook;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;

/**
 * A front end that sends the outputs of cells as events, in the format of notebook files. The printed text and the
 * displayed data of a cell are limited in size; a notice replaces the rest.
 */
final class LimitedOutputs implements FrontEnd {
    /** The number of characters that a cell may print. */
    static final int MOST_PRINTED = 1 << 20;

    /** The number of bytes that a cell may display, as JSON. */
    static final int MOST_DISPLAYED = 32 << 20;

    /** The smallest size with which a display is counted, so that the number of displays is limited, too. */
    private static final int LEAST_DISPLAYED = 512;

    private static final int MOST_ERROR_LINES = 100;
    private static final int MOST_LINE = 2000;
    private static final Gson GSON = new Gson();

    private final Consumer<NotebookEvent> events;
    private int printable;
    private int displayable;

    LimitedOutputs(Consumer<NotebookEvent> events) {
        this.events = events;
    }

    /** Starts a cell and resets the limits. */
    synchronized void begin(int cell) {
        printable = MOST_PRINTED;
        displayable = MOST_DISPLAYED;
        events.accept(NotebookEvent.started(cell));
    }

    @Override
    public InputStream input() {
        return InputStream.nullInputStream();
    }

    @Override
    public synchronized void print(CellStream stream, String text) {
        if (printable == 0) {
            return;
        }
        boolean all = text.length() < printable;
        stream(stream, all ? text : text.substring(0, printable));
        printable -= Math.min(text.length(), printable);
        if (!all) {
            stream(
                    CellStream.STDERR,
                    String.format(
                            Locale.ROOT, "%n… a cell may print %,d characters; the rest is left out%n", MOST_PRINTED));
        }
    }

    private void stream(CellStream stream, String text) {
        JsonObject output = output("stream");
        output.addProperty("name", stream.name().toLowerCase(Locale.ROOT));
        output.addProperty("text", text);
        events.accept(NotebookEvent.output(output, null));
    }

    @Override
    public synchronized void display(DisplayData data) {
        show(output("display_data"), data);
    }

    synchronized void result(DisplayData data, int executionCount) {
        JsonObject output = output("execute_result");
        output.addProperty("execution_count", executionCount);
        show(output, data);
    }

    private void show(JsonObject output, DisplayData data) {
        if (fill(output, data)) {
            events.accept(NotebookEvent.output(output, data.hasDisplayId() ? data.getDisplayId() : null));
        }
    }

    @Override
    public synchronized void updateDisplay(String id, DisplayData data) {
        var output = new JsonObject();
        if (fill(output, data)) {
            events.accept(NotebookEvent.updated(output, id));
        }
    }

    /** Adds the data or the notice that it is left out. Returns false if that notice was given before. */
    private boolean fill(JsonObject output, DisplayData data) {
        if (displayable == 0) {
            return false;
        }
        JsonObject json = GSON.toJsonTree(data).getAsJsonObject();
        int size = Math.max(LEAST_DISPLAYED, json.toString().getBytes(StandardCharsets.UTF_8).length);
        if (size > displayable) {
            displayable = 0;
            json = GSON.toJsonTree(new DisplayData(String.format(
                            Locale.ROOT, "… a cell may display %,d bytes; the rest is left out", MOST_DISPLAYED)))
                    .getAsJsonObject();
        } else {
            displayable -= size;
        }
        output.add("data", json.get("data"));
        output.add("metadata", json.has("metadata") ? json.get("metadata") : new JsonObject());
        return true;
    }

    /** Ends a cell. */
    synchronized void end(NotebookEvent.Failure failure) {
        events.accept(NotebookEvent.ended(failure));
    }

    synchronized void error(String name, String message, List<String> report) {
        events.accept(NotebookEvent.output(errorOutput(name, message, report), null));
    }

    /** Returns an output that shows an error. */
    static JsonObject errorOutput(String name, String message, List<String> report) {
        JsonObject output = output("error");
        output.addProperty("ename", name);
        output.addProperty("evalue", shortened(message));
        output.add("traceback", GSON.toJsonTree(shortened(report)));
        return output;
    }

    /** Returns the first lines of a report, each cut off after {@value #MOST_LINE} characters. */
    static List<String> shortened(List<String> report) {
        List<String> lines = new ArrayList<>();
        for (String line : report.subList(0, Math.min(report.size(), MOST_ERROR_LINES))) {
            lines.add(shortened(line));
        }
        return lines;
    }

    static String shortened(String text) {
        return text.length() <= MOST_LINE ? text : text.substring(0, MOST_LINE) + "…";
    }

    private static JsonObject output(String type) {
        var output = new JsonObject();
        output.addProperty("output_type", type);
        return output;
    }
}
