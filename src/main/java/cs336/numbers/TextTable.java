package cs336.numbers;

import cs336.charts.Svg;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.BinaryOperator;
import java.util.function.UnaryOperator;

/**
 * A table whose cells are text already.
 *
 * @param headers one a column
 * @param rightAligned whether a column's cells end flush, as numbers do
 * @param rows each as long as the headers
 */
public record TextTable(List<String> headers, List<Boolean> rightAligned, List<List<String>> rows) {
    /** That a page has room for in its ordinary type. */
    private static final int MOST_COLUMNS = 9;

    /** Letters that a line has room for in that type. */
    private static final int MOST_LETTERS = 98;

    /** As much as the room between two columns. */
    private static final int LETTERS_BETWEEN = 3;

    /** GitHub-flavoured Markdown, padded so that the source reads as a table too. */
    String markdown() {
        var text = new StringBuilder();
        List<Integer> widths = widths(3, TextTable::escapeMarkdown);
        appendMarkdown(text, headers, widths);
        for (int c = 0; c < headers.size(); c++) {
            String dashes = "-".repeat(widths.get(c) - (rightAligned.get(c) ? 1 : 0));
            text.append(c == 0 ? "| " : " | ").append(dashes).append(rightAligned.get(c) ? ":" : "");
        }
        text.append(" |\n");
        rows.forEach(row -> appendMarkdown(text, row, widths));
        return text.toString();
    }

    private void appendMarkdown(StringBuilder text, List<String> row, List<Integer> widths) {
        for (int c = 0; c < row.size(); c++) {
            text.append(c == 0 ? "| " : " | ").append(padded(escapeMarkdown(row.get(c)), c, widths));
        }
        text.append(" |\n");
    }

    private static String escapeMarkdown(String cell) {
        return cell.replace("|", "\\|").replace("\n", " ");
    }

    /** Columns aligned by spaces, for a terminal. */
    String text() {
        var text = new StringBuilder();
        List<Integer> widths = widths(0, cell -> cell);
        BinaryOperator<String> joined = (a, b) -> a + "  " + b;
        var lines = new ArrayList<List<String>>();
        lines.add(headers);
        lines.addAll(rows);
        for (List<String> line : lines) {
            var cells = new ArrayList<String>();
            for (int c = 0; c < line.size(); c++) {
                cells.add(padded(line.get(c), c, widths));
            }
            text.append(cells.stream().reduce(joined).orElse("").stripTrailing())
                    .append('\n');
        }
        return text.toString();
    }

    /**
     * An HTML table; numbers carry the class {@code number}, and a table with many columns or long words the class
     * {@code wide}.
     */
    public String html() {
        String open =
                headers.size() > MOST_COLUMNS || leastLetters() > MOST_LETTERS ? "<table class=\"wide\">" : "<table>";
        var text = new StringBuilder(open + "\n<thead>\n");
        appendHtml(text, headers, "th");
        text.append("</thead>\n<tbody>\n");
        rows.forEach(row -> appendHtml(text, row, "td"));
        return text.append("</tbody>\n</table>\n").toString();
    }

    /** In a line whose cells are broken wherever they can be: between words, and those of numbers nowhere. */
    private int leastLetters() {
        int letters = 0;
        for (int c = 0; c < headers.size(); c++) {
            int width = length(longestWord(headers.get(c)));
            for (List<String> row : rows) {
                String cell = row.get(c);
                width = Math.max(width, length(rightAligned.get(c) ? withoutSpaces(cell) : longestWord(cell)));
            }
            letters += width + LETTERS_BETWEEN;
        }
        return letters;
    }

    /** Spaces are so much narrower than digits that two of them, as in {@code 1.2 ± 0.3}, do not count. */
    private static String withoutSpaces(String cell) {
        return cell.replaceAll("\\s+", "");
    }

    private static String longestWord(String cell) {
        return Arrays.stream(cell.split("\\s+|(?<=-)"))
                .max(Comparator.comparingInt(TextTable::length))
                .orElse("");
    }

    private void appendHtml(StringBuilder text, List<String> row, String tag) {
        text.append("<tr>");
        for (int c = 0; c < row.size(); c++) {
            String open = rightAligned.get(c) ? "<" + tag + " class=\"number\">" : "<" + tag + ">";
            text.append(open).append(Svg.escape(row.get(c))).append("</" + tag + ">");
        }
        text.append("</tr>\n");
    }

    private String padded(String cell, int column, List<Integer> widths) {
        String pad = " ".repeat(Math.max(0, widths.get(column) - length(cell)));
        return rightAligned.get(column) ? pad + cell : cell + pad;
    }

    private List<Integer> widths(int least, UnaryOperator<String> escaped) {
        var widths = new ArrayList<Integer>();
        for (int c = 0; c < headers.size(); c++) {
            int width = Math.max(least, length(escaped.apply(headers.get(c))));
            for (List<String> row : rows) {
                width = Math.max(width, length(escaped.apply(row.get(c))));
            }
            widths.add(width);
        }
        return widths;
    }

    private static int length(String text) {
        return text.codePointCount(0, text.length());
    }
}
