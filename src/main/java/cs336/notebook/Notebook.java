package cs336.notebook;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonPrimitive;
import com.google.gson.stream.JsonWriter;
import cs336.bench.WholeFile;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** A notebook file in Jupyter's format, version 4. */
final class Notebook {
    private static final int FORMAT = 4;
    private static final int MINOR = 5;
    private static final Set<String> SAVED_BY_JUPYTER = Set.of("execution", "collapsed", "scrolled", "trusted");
    private static final String METADATA = "{'kernelspec': {'display_name': 'Java (cs336)', 'language': 'java',"
            + " 'name': 'cs336'}, 'language_info': {'file_extension': '.java', 'mimetype': 'text/x-java-source',"
            + " 'name': 'Java'}}";
    private static final Set<String> TYPES = Set.of("code", "markdown", "raw");
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
        String problem = ": it has no cells or no nbformat";
        try {
            JsonElement json = GSON.fromJson(Files.readString(file), JsonElement.class);
            if (json == null) {
                throw new JsonParseException("the file is empty");
            }
            JsonObject notebook = json.getAsJsonObject();
            JsonArray cells = Objects.requireNonNull(notebook.getAsJsonArray("cells"));
            int format = notebook.get("nbformat").getAsInt();
            problem = format == FORMAT ? problemIn(cells) : " of format " + FORMAT + ", but of format " + format;
            if (problem == null) {
                return new Notebook(file.toAbsolutePath(), notebook);
            }
        } catch (JsonParseException | StackOverflowError e) {
            problem = ": it is not JSON";
        } catch (CharacterCodingException e) {
            problem = ": it is not UTF-8";
        } catch (RuntimeException e) {
            // The notebook, its cells or its format are of another type.
        }
        throw new IOException(file + " is not a notebook" + problem);
    }

    /** Returns the error of the first cell that does not follow the format; null if all do. */
    private static String problemIn(JsonArray cells) {
        for (int i = 0; i < cells.size(); i++) {
            String problem = problemIn(cells.get(i));
            if (problem != null) {
                return ": cell " + (i + 1) + ": " + problem;
            }
        }
        return null;
    }

    private static String problemIn(JsonElement cell) {
        if (!cell.isJsonObject()) {
            return "it must be an object, not " + cell;
        }
        JsonObject json = cell.getAsJsonObject();
        JsonElement type = json.get("cell_type");
        if (!isString(type) || !TYPES.contains(type.getAsString())) {
            return "cell_type must be code, markdown or raw, not " + type;
        }
        JsonElement id = json.get("id");
        if (id != null && !isString(id)) {
            return "id must be a string, not " + id;
        }
        JsonElement source = json.get("source");
        if (!isString(source) && !isList(source, Notebook::isString)) {
            return "source must be a string or a list of strings, not " + source;
        }
        JsonElement metadata = json.get("metadata");
        if (metadata != null && !metadata.isJsonObject()) {
            return "metadata must be an object, not " + metadata;
        }
        JsonElement tags = metadata == null ? null : metadata.getAsJsonObject().get("tags");
        if (tags != null && !tags.isJsonArray()) {
            return "tags must be a list, not " + tags;
        }
        JsonElement outputs = json.get("outputs");
        if (outputs != null && !isList(outputs, JsonElement::isJsonObject)) {
            return "outputs must be a list of objects, not " + outputs;
        }
        return null;
    }

    private static boolean isString(JsonElement element) {
        return element instanceof JsonPrimitive primitive && primitive.isString();
    }

    private static boolean isList(JsonElement element, Predicate<JsonElement> ofWhat) {
        return element instanceof JsonArray list
                && StreamSupport.stream(list.spliterator(), false).allMatch(ofWhat);
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
        return name(file);
    }

    /** Returns the name of a notebook file without extension. */
    static String name(Path file) {
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

    /** Returns a notebook of the same name with only the cells that match. */
    Notebook only(Predicate<Cell> wanted) {
        JsonObject copy = json.deepCopy();
        var kept = new JsonArray();
        cells().stream().filter(wanted).forEach(cell -> kept.add(cell.json.deepCopy()));
        copy.add("cells", kept);
        return new Notebook(file, copy);
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
        WholeFile.write(file, GSON.toJson(json) + "\n");
    }

    /**
     * Writes the notebook as it is stored in the repository: without outputs and execution counts, with fixed metadata,
     * and formatted as by Jupyter.
     */
    void clean(Path file) throws IOException {
        for (Cell cell : cells()) {
            if (cell.isCode()) {
                cell.setResult(null, new JsonArray());
                if (cell.json.get("metadata") instanceof JsonObject metadata) {
                    metadata.keySet().removeAll(SAVED_BY_JUPYTER);
                }
            }
        }
        json.add("metadata", GSON.fromJson(METADATA, JsonObject.class));
        var text = new StringWriter();
        try (JsonWriter writer = GSON.newJsonWriter(text)) {
            writer.setIndent(" ");
            GSON.toJson(json, writer);
        }
        WholeFile.write(file, text + "\n");
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

        /** Returns the id of the cell; empty if it has none. */
        String id() {
            return json.has("id") ? json.get("id").getAsString() : "";
        }

        /** Returns whether the cell has Jupyter's tag {@code raises-exception}. */
        boolean mayFail() {
            return hasTag("raises-exception");
        }

        /** Returns whether JupyterLab or Jupyter Book hides the source of the cell. */
        boolean hidesSource() {
            boolean inLab = json.has("metadata")
                    && json.getAsJsonObject("metadata").get("jupyter") instanceof JsonObject jupyter
                    && new JsonPrimitive(true).equals(jupyter.get("source_hidden"));
            return inLab || hasTag("hide-input");
        }

        /** Returns whether the cell has a tag. */
        boolean hasTag(String tag) {
            JsonElement tags =
                    json.has("metadata") ? json.getAsJsonObject("metadata").get("tags") : null;
            return tags != null && tags.getAsJsonArray().contains(new JsonPrimitive(tag));
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
