package cs336.writeup;

import cs336.bench.WholeFile;
import cs336.numbers.MeasurementQuery;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The settings between two lines {@code ---} at the beginning of a writeup.
 *
 * @param title title of the writeup
 * @param numbers measurements of the machine, with the defined names
 * @param text text of the writeup with blank lines in place of the front matter, so that line numbers are unchanged
 */
record FrontMatter(String title, MeasurementQuery numbers, String text) {

    /**
     * Reads a file that begins with front matter.
     *
     * @throws WriteupException if a setting is missing, unknown or invalid
     */
    static FrontMatter read(Path file) throws IOException, WriteupException {
        List<String> lines = new ArrayList<>(WholeFile.read(file).lines().toList());
        String title = null;
        String machine = null;
        String measurements = "../data/measurements";
        record Definition(int line, String name, String expression) {}
        var definitions = new ArrayList<Definition>();
        int end = lines.isEmpty() || !lines.get(0).strip().equals("---")
                ? 0
                : lines.subList(1, lines.size()).indexOf("---") + 1;
        if (end == 0) {
            throw problem(file, 1, "a writeup must begin with front matter between two lines \"---\"");
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
                continue;
            }
            switch (key) {
                case "title" -> title = value;
                case "machine" -> machine = value;
                case "measurements" -> measurements = value;
                case "define" -> {}
                default ->
                    throw problem(file, i + 1, "\"" + key + "\" is not one of title, machine, measurements, define");
            }
        }
        if (title == null || machine == null) {
            throw problem(file, 1, "the front matter must have a title and a machine");
        }
        MeasurementQuery numbers;
        try {
            numbers = MeasurementQuery.of(
                    file.resolveSibling(measurements).resolve(machine).normalize());
        } catch (IllegalArgumentException e) {
            throw problem(file, 1, e.getMessage());
        }
        for (Definition definition : definitions) {
            try {
                numbers.define(definition.name(), definition.expression());
            } catch (IllegalArgumentException e) {
                throw problem(file, definition.line(), definition.name() + ": " + e.getMessage());
            }
        }
        for (int i = 0; i <= end; i++) {
            lines.set(i, "");
        }
        return new FrontMatter(title, numbers, String.join("\n", lines) + "\n");
    }

    private static WriteupException problem(Path file, int line, String message) {
        return new WriteupException(List.of(file + ":" + line + ": " + message));
    }
}
