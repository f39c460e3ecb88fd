package cs336.numbers;

import java.util.function.BiFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The replacement of the references in a Markdown text. A reference is between double braces on one line. Code spans
 * and fenced blocks are left unchanged, and {@code \{{} is an escape for two braces.
 */
public final class References {
    private static final Pattern FENCE = Pattern.compile(" {0,3}(`{3,}|~{3,}).*");

    private References() {}

    /**
     * Returns the text with each reference replaced by its value. Line numbers do not change.
     *
     * @param value returns the value of a reference; it receives the line (from 1) and the text between the braces, or
     *     null if the closing braces are missing. Its exceptions reach the caller.
     */
    public static String replace(String markdown, BiFunction<Integer, String, String> value) {
        String[] lines = markdown.split("\n", -1);
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
                lines[i] = line(lines[i], i + 1, value);
            }
        }
        return String.join("\n", lines);
    }

    private static String line(String line, int number, BiFunction<Integer, String, String> value) {
        var text = new StringBuilder();
        int at = 0;
        while (at < line.length()) {
            if (line.startsWith("\\{{", at)) {
                text.append("{{");
                at += 3;
            } else if (line.startsWith("{{", at)) {
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
        return text.toString();
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
