package cs336.numbers;

import java.util.ArrayList;
import java.util.function.BiFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The replacement of the references in a Markdown text. A reference is between double braces and may continue on the
 * next lines of its paragraph. Code spans and fenced blocks are left unchanged, and {@code \{{} is an escape for two
 * braces.
 */
public final class References {
    private static final Pattern FENCE = Pattern.compile(" {0,3}(`{3,}|~{3,}).*");

    private References() {}

    /**
     * Returns the text with each reference replaced by its value. Line numbers do not change, except that the lines of
     * a reference become one.
     *
     * @param value returns the value of a reference; it receives the line (from 1) and the text between the braces, or
     *     null if the closing braces are missing. Its exceptions reach the caller.
     */
    public static String replace(String markdown, BiFunction<Integer, String, String> value) {
        String[] lines = markdown.split("\n", -1);
        var result = new ArrayList<String>();
        String fence = null;
        for (int i = 0; i < lines.length; i++) {
            Matcher opening = FENCE.matcher(lines[i]);
            if (fence != null) {
                String stripped = lines[i].strip();
                if (stripped.startsWith(fence) && stripped.chars().allMatch(c -> c == stripped.charAt(0))) {
                    fence = null;
                }
            } else if (opening.matches()) {
                fence = opening.group(1);
            } else {
                var text = new StringBuilder();
                i = replace(lines, i, text, value);
                result.add(text.toString());
                continue;
            }
            result.add(lines[i]);
        }
        return String.join("\n", result);
    }

    /** Appends a line with its references replaced, and returns the index of the last line that it contains. */
    private static int replace(
            String[] lines, int first, StringBuilder text, BiFunction<Integer, String, String> value) {
        String line = lines[first];
        int last = first;
        int at = 0;
        while (at < line.length()) {
            if (line.startsWith("\\{{", at)) {
                text.append("{{");
                at += 3;
            } else if (line.startsWith("{{", at)) {
                int number = last + 1;
                while (line.indexOf("}}", at) < 0 && last + 1 < lines.length && !lines[last + 1].isBlank()) {
                    line += " " + lines[++last].strip();
                }
                int end = line.indexOf("}}", at);
                text.append(value.apply(number, end < 0 ? null : line.substring(at + 2, end)));
                at = end < 0 ? line.length() : end + 2;
            } else if (line.charAt(at) == '`') {
                int end = codeEnd(line, at);
                text.append(line, at, end);
                at = end;
            } else {
                text.append(line.charAt(at++));
            }
        }
        return last;
    }

    /** Returns the end of the code span that starts here, or the end of its backticks if it is not closed. */
    private static int codeEnd(String line, int start) {
        int open = start;
        while (open < line.length() && line.charAt(open) == '`') {
            open++;
        }
        String ticks = line.substring(start, open);
        for (int at = line.indexOf(ticks, open); at >= 0; at = line.indexOf(ticks, at)) {
            int end = at;
            while (end < line.length() && line.charAt(end) == '`') {
                end++;
            }
            if (end - at == ticks.length()) {
                return end;
            }
            at = end;
        }
        return open;
    }
}
