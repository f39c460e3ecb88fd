package cs336.notebook;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The outputs of the cells of one notebook in the format of notebook files. */
final class RecordedOutputs {
    private final Map<String, List<JsonObject>> outputsOfId = new HashMap<>();
    private JsonArray outputs = new JsonArray();

    /** Returns the outputs since the last call. */
    JsonArray take() {
        JsonArray taken = outputs;
        outputs = new JsonArray();
        return taken;
    }

    /**
     * Adds an output. Text that continues that of the same stream is appended to it.
     *
     * @param displayId the id for {@link #update}; null if the output cannot be replaced
     */
    void add(JsonObject output, String displayId) {
        JsonObject last =
                outputs.size() == 0 ? null : outputs.get(outputs.size() - 1).getAsJsonObject();
        if (last != null && last.has("name") && last.get("name").equals(output.get("name"))) {
            last.addProperty(
                    "text", last.get("text").getAsString() + output.get("text").getAsString());
            return;
        }
        outputs.add(output);
        if (displayId != null) {
            outputsOfId.computeIfAbsent(displayId, id -> new ArrayList<>()).add(output);
        }
    }

    /** Replaces the data of the outputs with this id. */
    void update(JsonObject output, String displayId) {
        for (JsonObject shown : outputsOfId.getOrDefault(displayId, List.of())) {
            shown.add("data", output.get("data"));
            shown.add("metadata", output.get("metadata"));
        }
    }
}
