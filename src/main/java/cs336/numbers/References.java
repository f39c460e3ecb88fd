package cs336.numbers;

import java.util.function.BiFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Finds references between double braces in a Markdown text and puts their values in their place. Code stays as it is,
 * in spans and in fenced blocks, and {@code \{{} is two braces. A reference stands on one line.
 */
public final class References {
    private static final Pattern FENCE = Pattern.compile(" {0,3}(`{3,}|~{3,}).*");

    private References() {}

    /**
     * The text with values, line for line.
     *
     * @param value of a reference, given its line (from 1) and the words between the braces; its exceptions pass
     *     through
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

    /** Where a code span that opens here ends, or where its backticks end when it does not close. */
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
