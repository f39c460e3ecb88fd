package cs336.notebook;

import com.google.gson.JsonArray;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A builder of notebook files in the format that Jupyter writes. */
final class WrittenNotebook {
    private final JsonArray cells = new JsonArray();

    WrittenNotebook markdown(String... lines) {
        add("markdown", lines);
        return this;
    }

    WrittenNotebook code(String... lines) {
        JsonObject cell = add("code", lines);
        cell.add("execution_count", JsonNull.INSTANCE);
        cell.add("outputs", new JsonArray());
        return this;
    }

    WrittenNotebook codeThatMayFail(String... lines) {
        return tagged("raises-exception", lines);
    }

    WrittenNotebook tagged(String tag, String... lines) {
        code(lines);
        var tags = new JsonArray();
        tags.add(tag);
        last().getAsJsonObject("metadata").add("tags", tags);
        return this;
    }

    WrittenNotebook codeWithOutput(String... lines) {
        code(lines);
        var output = new JsonObject();
        output.addProperty("output_type", "stream");
        output.addProperty("name", "stdout");
        output.addProperty("text", "old");
        last().getAsJsonArray("outputs").add(output);
        return this;
    }

    WrittenNotebook codeWithCount(int count, String... lines) {
        code(lines);
        last().addProperty("execution_count", count);
        return this;
    }

    Path save(Path folder, String name) throws IOException {
        var kernel = new JsonObject();
        kernel.addProperty("name", "java");
        var metadata = new JsonObject();
        metadata.add("kernelspec", kernel);
        var notebook = new JsonObject();
        notebook.add("cells", cells);
        notebook.add("metadata", metadata);
        notebook.addProperty("nbformat", 4);
        notebook.addProperty("nbformat_minor", 4);
        return Files.writeString(folder.resolve(name + ".ipynb"), notebook.toString());
    }

    private JsonObject last() {
        return cells.get(cells.size() - 1).getAsJsonObject();
    }

    private JsonObject add(String type, String... lines) {
        var source = new JsonArray();
        for (int i = 0; i < lines.length; i++) {
            source.add(lines[i] + (i < lines.length - 1 ? "\n" : ""));
        }
        var cell = new JsonObject();
        cell.addProperty("cell_type", type);
        cell.add("metadata", new JsonObject());
        cell.add("source", source);
        cells.add(cell);
        return cell;
    }
}
