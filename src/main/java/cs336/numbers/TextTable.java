package cs336.numbers;

import cs336.charts.Svg;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.UnaryOperator;

/**
 * A table of formatted cells.
 *
 * @param headers column headers
 * @param rightAligned true for each column that is right-aligned, such as numbers
 * @param rows rows of cells, each as long as the headers
 */
public record TextTable(List<String> headers, List<Boolean> rightAligned, List<List<String>> rows) {
    /** The largest number of columns that fits a page in the normal font size. */
    private static final int MAX_COLUMNS = 9;

    /** The largest number of characters that fits a line in the normal font size. */
    private static final int MAX_CHARACTERS = 98;

    /** The space between two columns, in characters. */
    private static final int COLUMN_GAP = 3;

    /** Returns GitHub-flavoured Markdown with aligned columns. */
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

    /** Returns text with aligned columns, for a terminal. */
    String text() {
        var text = new StringBuilder();
        List<Integer> widths = widths(0, cell -> cell);
        var lines = new ArrayList<List<String>>();
        lines.add(headers);
        lines.addAll(rows);
        for (List<String> line : lines) {
            var cells = new ArrayList<String>();
            for (int c = 0; c < line.size(); c++) {
                cells.add(padded(line.get(c), c, widths));
            }
            text.append(String.join("  ", cells).stripTrailing()).append('\n');
        }
        return text.toString();
    }

    /**
     * Returns an HTML table. Cells of numbers have the class {@code number}, and a table that does not fit a page in
     * the normal font size has the class {@code wide}.
     */
    public String html() {
        String open =
                headers.size() > MAX_COLUMNS || minimumWidth() > MAX_CHARACTERS ? "<table class=\"wide\">" : "<table>";
        var text = new StringBuilder(open + "\n<thead>\n");
        appendHtml(text, headers, "th");
        text.append("</thead>\n<tbody>\n");
        rows.forEach(row -> appendHtml(text, row, "td"));
        return text.append("</tbody>\n</table>\n").toString();
    }

    /**
     * Returns the smallest width of the table in characters: lines of text break between words, numbers do not break.
     */
    private int minimumWidth() {
        int characters = 0;
        for (int c = 0; c < headers.size(); c++) {
            int width = length(longestWord(headers.get(c)));
            for (List<String> row : rows) {
                String cell = row.get(c);
                width = Math.max(width, length(rightAligned.get(c) ? withoutSpaces(cell) : longestWord(cell)));
            }
            characters += width + COLUMN_GAP;
        }
        return characters;
    }

    /** Removes spaces, which are much narrower than digits, as in {@code 1.2 ± 0.3}. */
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

    private List<Integer> widths(int minimum, UnaryOperator<String> escaped) {
        var widths = new ArrayList<Integer>();
        for (int c = 0; c < headers.size(); c++) {
            int width = Math.max(minimum, length(escaped.apply(headers.get(c))));
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
