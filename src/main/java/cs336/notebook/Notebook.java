package cs336.notebook;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** A notebook file in Jupyter's format, version 4. */
final class Notebook {
    private static final int FORMAT = 4;
    private static final int MINOR = 5;
    private static final Gson GSON = new GsonBuilder()
            .setPrettyPrinting()
            .disableHtmlEscaping()
            .serializeNulls()
            .create();

    private final Path file;
    private final JsonObject json;

    private Notebook(Path file, JsonObject json) {
        this.file = file;
        this.json = json;
    }

    /**
     * Reads a notebook file.
     *
     * @throws IOException if the file cannot be read or is not such a notebook; the message names the file and the
     *     reason
     */
    static Notebook read(Path file) throws IOException {
        try {
            JsonObject json = JsonParser.parseString(Files.readString(file)).getAsJsonObject();
            if (json.get("nbformat").getAsInt() != FORMAT || !json.get("cells").isJsonArray()) {
                throw new IOException(file + " is not a notebook of format " + FORMAT);
            }
            return new Notebook(file.toAbsolutePath(), json);
        } catch (JsonParseException e) {
            throw new IOException(file + " is not a notebook: it is not JSON", e);
        } catch (RuntimeException e) {
            throw new IOException(file + " is not a notebook: it has no cells or no nbformat", e);
        }
    }

    /** Returns the notebook files of a folder in alphabetical order; none if the folder does not exist. */
    static List<Path> in(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(file -> file.toString().endsWith(".ipynb"))
                    .sorted()
                    .toList();
        }
    }

    /** Returns the file name without extension. */
    String name() {
        return file.getFileName().toString().replaceFirst("\\.ipynb$", "");
    }

    /** Returns the folder to which image paths in the text are relative. */
    Path folder() {
        return file.getParent();
    }

    List<Cell> cells() {
        List<Cell> cells = new ArrayList<>();
        for (JsonElement cell : json.getAsJsonArray("cells")) {
            cells.add(new Cell(cell.getAsJsonObject()));
        }
        return cells;
    }

    /** Writes the notebook in format 4.5, which requires an id in every cell. */
    void write(Path file) throws IOException {
        json.addProperty("nbformat", FORMAT);
        json.addProperty("nbformat_minor", MINOR);
        List<Cell> cells = cells();
        for (int i = 0; i < cells.size(); i++) {
            if (!cells.get(i).json.has("id")) {
                cells.get(i).json.addProperty("id", "cell-" + (i + 1));
            }
        }
        Files.writeString(file, GSON.toJson(json) + "\n");
    }

    /** A view of one cell. */
    record Cell(JsonObject json) {
        boolean isCode() {
            return is("code");
        }

        boolean isMarkdown() {
            return is("markdown");
        }

        private boolean is(String type) {
            return json.has("cell_type") && json.get("cell_type").getAsString().equals(type);
        }

        String source() {
            return text(json.get("source"));
        }

        /** Returns whether the cell has Jupyter's tag {@code raises-exception}. */
        boolean mayFail() {
            JsonElement tags =
                    json.has("metadata") ? json.getAsJsonObject("metadata").get("tags") : null;
            return tags != null && tags.getAsJsonArray().contains(new JsonPrimitive("raises-exception"));
        }

        JsonArray outputs() {
            return json.has("outputs") ? json.getAsJsonArray("outputs") : new JsonArray();
        }

        boolean hasExecutionCount() {
            return json.has("execution_count") && !json.get("execution_count").isJsonNull();
        }

        /** Replaces the execution count and the outputs. */
        void setResult(Integer executionCount, JsonArray outputs) {
            json.addProperty("execution_count", executionCount);
            json.add("outputs", outputs);
        }
    }

    /** Returns text that the format stores as one string or as a list of lines. */
    static String text(JsonElement stored) {
        if (stored == null || stored.isJsonNull()) {
            return "";
        }
        if (!stored.isJsonArray()) {
            return stored.getAsString();
        }
        var text = new StringBuilder();
        stored.getAsJsonArray().forEach(line -> text.append(line.getAsString()));
        return text.toString();
    }
}
