package cs336.numbers;

import cs336.units.Separators;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A Markdown table in a fenced block with the info string {@code table}, for rows that are not cases of one selection.
 * It has a caption, which a writeup requires, and may have a name; its rows may repeat:
 *
 * <pre>{@code
 * | model | ours | PyTorch |
 * |---|---|---|
 * for: model | tokens = small | 128; xl | 1024
 * | {model}, {tokens} tokens
 *   | {{step[size={model}, context={tokens}, implementation=plain].median : %.1f ms}}
 *   | {{step[size={model}, context={tokens}, implementation=peer].median : %.1f ms}} |
 * caption: Time of a training step.
 * name: steps
 * }</pre>
 *
 * <p>A line {@code for} repeats the next row for each list of values: {@code name | name = value | value; value |
 * value}. The row contains the names between braces. Outside of references, whole numbers have thousands separators. A
 * line that begins with a space continues the line before.
 *
 * @param name name for links such as {@code [Table](#table-steps)}; may be empty
 * @param caption caption in Markdown; empty only outside of a writeup
 * @param markdown the table with all rows, without a line break at its end
 */
public record WrittenTable(String name, String caption, String markdown) {
    private static final Set<String> KEYS = new LinkedHashSet<>(List.of("caption", "for", "name"));
    private static final Pattern REFERENCE = Pattern.compile("(?<!\\\\)\\{\\{.*?\\}\\}(?!\\})");

    /** Returns whether a block {@code table} is written as rows in Markdown. */
    public static boolean isWritten(String block) {
        return block.lines().anyMatch(line -> line.startsWith("|"));
    }

    /**
     * Returns the table that a block describes.
     *
     * @param block content of the fenced block
     * @param value returns the value of a reference in a row or the caption; it receives the line in the block, from 1,
     *     and the text between the braces, or null if the closing braces are missing
     * @throws IllegalArgumentException if a key is unknown or given twice, or a line {@code for} does not fit its row
     */
    public static WrittenTable read(String block, BiFunction<Integer, String, String> value) {
        var keys = new LinkedHashMap<String, String>();
        var rows = new ArrayList<String>();
        for (Map.Entry<Integer, String> line : logicalLines(block).entrySet()) {
            String text = line.getValue();
            int colon = text.indexOf(':');
            if (text.startsWith("|")) {
                for (String row : repeated(text, keys.remove("for"))) {
                    rows.add(References.replace(row, (one, reference) -> value.apply(line.getKey(), reference)));
                }
                continue;
            }
            String key = colon < 0 ? text.strip() : text.substring(0, colon).strip();
            if (colon < 0 || !KEYS.contains(key)) {
                throw new IllegalArgumentException(
                        "\"" + key + "\" is neither a row nor one of " + String.join(", ", KEYS));
            }
            String given = text.substring(colon + 1).strip();
            String content = key.equals("caption")
                    ? References.replace(given, (one, reference) -> value.apply(line.getKey(), reference))
                    : given;
            if (keys.put(key, content) != null) {
                throw new IllegalArgumentException(key + " must not be given twice");
            }
        }
        if (keys.containsKey("for")) {
            throw new IllegalArgumentException("a row must follow \"for: " + keys.get("for") + "\"");
        }
        return new WrittenTable(
                keys.getOrDefault("name", ""), keys.getOrDefault("caption", ""), String.join("\n", rows));
    }

    /** Returns the lines with their continuations, by the number of their first line. */
    private static Map<Integer, String> logicalLines(String block) {
        var result = new LinkedHashMap<Integer, String>();
        String[] lines = block.split("\n");
        int first = 0;
        for (int i = 0; i < lines.length; i++) {
            if (lines[i].isBlank()) {
                continue;
            }
            if (lines[i].startsWith(" ") && first > 0) {
                result.merge(first, lines[i].strip(), (before, next) -> before + " " + next);
            } else {
                first = i + 1;
                result.put(first, lines[i].stripTrailing());
            }
        }
        return result;
    }

    /** Returns a row once for each list of values of a line {@code for}, or unchanged if there is none. */
    private static List<String> repeated(String row, String loop) {
        if (loop == null) {
            return List.of(row);
        }
        String[] sides = loop.split("=", 2);
        if (sides.length < 2 || sides[0].isBlank() || sides[1].isBlank()) {
            throw new IllegalArgumentException(
                    "\"for: " + loop + "\" must be of the form \"for: size | pass =" + " small | forward; xl | step\"");
        }
        List<String> names = cells(sides[0]);
        Placeholders.requireAll(row, names, "the row after \"for\"");
        if (new LinkedHashSet<>(names).size() < names.size()) {
            throw new IllegalArgumentException("\"for\" has a name twice: " + String.join(" | ", names));
        }
        var rows = new ArrayList<String>();
        for (String list : sides[1].split(";")) {
            List<String> values = cells(list);
            if (values.size() != names.size()) {
                throw new IllegalArgumentException(
                        "\"" + list.strip() + "\" must have " + names.size() + " values: " + String.join(" | ", names));
            }
            rows.add(filled(row, byName(names, values)));
        }
        return rows;
    }

    private static List<String> cells(String text) {
        return List.of(text.strip().split("\\s*\\|\\s*", -1));
    }

    private static Map<String, String> byName(List<String> names, List<String> values) {
        var result = new LinkedHashMap<String, String>();
        for (int i = 0; i < names.size(); i++) {
            result.put(names.get(i), values.get(i));
        }
        return result;
    }

    /** Returns a row with values in place of names, with thousands separators outside of references. */
    private static String filled(String row, Map<String, String> values) {
        var result = new StringBuilder();
        Matcher reference = REFERENCE.matcher(row);
        int end = 0;
        while (reference.find()) {
            result.append(Placeholders.fill(row.substring(end, reference.start()), values, Separators::of));
            result.append(Placeholders.fill(reference.group(), values));
            end = reference.end();
        }
        return result.append(Placeholders.fill(row.substring(end), values, Separators::of))
                .toString();
    }
}
