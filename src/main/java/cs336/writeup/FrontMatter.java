package cs336.writeup;

import cs336.bench.WholeFile;
import cs336.numbers.MeasurementQuery;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The settings between two lines {@code ---} at the beginning of a writeup or of one of its chapters.
 *
 * @param title title of the writeup
 * @param numbers measurements of the machine, with the defined names
 * @param text text of the file with blank lines in place of the front matter, so that line numbers are unchanged
 */
record FrontMatter(String title, MeasurementQuery numbers, String text) {

    /** A name and its expression, with the line in the file. */
    private record Definition(int line, String name, String expression) {}

    /** The settings of a file by key, its definitions, and the text without the front matter. */
    private record FrontSettings(Map<String, String> values, List<Definition> definitions, String text) {}

    /**
     * Reads {@code writeup.md}, which must begin with front matter.
     *
     * @throws WriteupException if a setting is missing, unknown or invalid
     */
    static FrontMatter read(Path file) throws IOException, WriteupException {
        FrontSettings settings = settings(file, List.of("title", "machine", "measurements", "define"));
        if (settings == null) {
            throw problem(file, 1, "a writeup must begin with front matter between two lines \"---\"");
        }
        String title = settings.values.get("title");
        String machine = settings.values.get("machine");
        if (title == null || machine == null) {
            throw problem(file, 1, "the front matter must have a title and a machine");
        }
        MeasurementQuery numbers;
        try {
            numbers = MeasurementQuery.of(
                    file.resolveSibling(settings.values.getOrDefault("measurements", "../data/measurements"))
                            .resolve(machine)
                            .normalize());
        } catch (IllegalArgumentException e) {
            throw problem(file, 1, e.getMessage());
        }
        define(file, settings.definitions, numbers);
        return new FrontMatter(title, numbers, settings.text);
    }

    /**
     * Reads a chapter, which may begin with front matter that defines names for this chapter.
     *
     * @throws WriteupException if a setting is unknown or invalid
     */
    FrontMatter ofChapter(Path file) throws IOException, WriteupException {
        FrontSettings settings = settings(file, List.of("define"));
        if (settings == null) {
            return new FrontMatter(title, numbers, WholeFile.read(file));
        }
        MeasurementQuery own = numbers.withOwnNames();
        define(file, settings.definitions, own);
        return new FrontMatter(title, own, settings.text);
    }

    /** Returns the front matter of a file, or null if it has none. */
    private static FrontSettings settings(Path file, List<String> allowed) throws IOException, WriteupException {
        List<String> lines = new ArrayList<>(WholeFile.read(file).lines().toList());
        var values = new LinkedHashMap<String, String>();
        var definitions = new ArrayList<Definition>();
        int end = lines.isEmpty() || !lines.get(0).strip().equals("---")
                ? 0
                : lines.subList(1, lines.size()).indexOf("---") + 1;
        if (end == 0) {
            return null;
        }
        for (int i = 1; i < end; i++) {
            String line = lines.get(i);
            int colon = line.indexOf(':');
            if (line.isBlank()) {
                continue;
            }
            if (colon < 0) {
                throw problem(file, i + 1, "\"" + line.strip() + "\" is not of the form key: value");
            }
            String key = line.substring(0, colon).strip();
            String value = line.substring(colon + 1).strip();
            if (Character.isWhitespace(line.charAt(0))) {
                definitions.add(new Definition(i + 1, key, value));
            } else if (allowed.contains(key)) {
                values.put(key, value);
            } else {
                throw problem(file, i + 1, "\"" + key + "\" is not one of " + String.join(", ", allowed));
            }
        }
        for (int i = 0; i <= end; i++) {
            lines.set(i, "");
        }
        return new FrontSettings(values, definitions, String.join("\n", lines) + "\n");
    }

    private static void define(Path file, List<Definition> definitions, MeasurementQuery numbers)
            throws WriteupException {
        for (Definition definition : definitions) {
            try {
                numbers.define(definition.name(), definition.expression());
            } catch (IllegalArgumentException e) {
                throw problem(file, definition.line(), definition.name() + ": " + e.getMessage());
            }
        }
    }

    private static WriteupException problem(Path file, int line, String message) {
        return new WriteupException(List.of(file + ":" + line + ": " + message));
    }
}
