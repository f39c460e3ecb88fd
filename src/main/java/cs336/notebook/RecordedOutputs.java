package cs336.notebook;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** A front end that records the outputs of a cell in the format of notebook files. */
final class RecordedOutputs implements FrontEnd {
    private static final Gson GSON = new Gson();

    private final Map<String, List<JsonObject>> outputsOfId = new HashMap<>();
    private JsonArray outputs = new JsonArray();

    /** Returns the outputs since the last call. */
    synchronized JsonArray take() {
        JsonArray taken = outputs;
        outputs = new JsonArray();
        return taken;
    }

    @Override
    public InputStream input() {
        return InputStream.nullInputStream();
    }

    @Override
    public synchronized void print(CellStream stream, String text) {
        String name = stream.name().toLowerCase(Locale.ROOT);
        if (!outputs.isEmpty()) {
            JsonObject last = outputs.get(outputs.size() - 1).getAsJsonObject();
            if (last.has("name") && last.get("name").getAsString().equals(name)) {
                last.addProperty("text", last.get("text").getAsString() + text);
                return;
            }
        }
        JsonObject output = output("stream");
        output.addProperty("name", name);
        output.addProperty("text", text);
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
        fill(output, data);
        if (data.hasDisplayId()) {
            outputsOfId
                    .computeIfAbsent(data.getDisplayId(), id -> new ArrayList<>())
                    .add(output);
        }
    }

    @Override
    public synchronized void updateDisplay(String id, DisplayData data) {
        outputsOfId.getOrDefault(id, List.of()).forEach(output -> fill(output, data));
    }

    private static void fill(JsonObject output, DisplayData data) {
        JsonObject json = GSON.toJsonTree(data).getAsJsonObject();
        output.add("data", json.get("data"));
        output.add("metadata", json.has("metadata") ? json.get("metadata") : new JsonObject());
    }

    synchronized void error(CellException error) {
        JsonObject output = output("error");
        output.addProperty("ename", error.name());
        output.addProperty("evalue", error.getMessage());
        output.add("traceback", GSON.toJsonTree(error.report()));
    }

    private JsonObject output(String type) {
        var output = new JsonObject();
        output.addProperty("output_type", type);
        outputs.add(output);
        return output;
    }
}
