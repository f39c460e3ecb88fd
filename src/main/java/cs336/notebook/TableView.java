package cs336.notebook;

import tech.tablesaw.api.NumericColumn;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;

/** A tablesaw table as HTML and as text; of a long one, the first and the last rows. */
final class TableView {
    private static final int MOST_ROWS = 40;

    private TableView() {}

    static String text(Table table) {
        return table.print(MOST_ROWS);
    }

    static String html(Table table) {
        StringBuilder html = new StringBuilder("<table>\n");
        if (table.name() != null && !table.name().isBlank()) {
            html.append("<caption>").append(Html.escape(table.name())).append("</caption>\n");
        }
        html.append("<thead><tr>");
        for (Column<?> column : table.columns()) {
            html.append("<th")
                    .append(alignment(column))
                    .append('>')
                    .append(Html.escape(column.name()))
                    .append("</th>");
        }
        html.append("</tr></thead>\n<tbody>\n");
        int rows = table.rowCount();
        int head = rows <= MOST_ROWS ? rows : MOST_ROWS / 2;
        int tail = rows <= MOST_ROWS ? rows : rows - MOST_ROWS / 2;
        append(table, 0, head, html);
        if (head < tail) {
            html.append("<tr>").append("<td>…</td>".repeat(table.columnCount())).append("</tr>\n");
            append(table, tail, rows, html);
        }
        html.append("</tbody>\n</table>\n");
        if (head < tail) {
            html.append("<p>")
                    .append(rows)
                    .append(" rows × ")
                    .append(table.columnCount())
                    .append(" columns</p>\n");
        }
        return html.toString();
    }

    private static void append(Table table, int from, int to, StringBuilder html) {
        for (int row = from; row < to; row++) {
            html.append("<tr>");
            for (Column<?> column : table.columns()) {
                html.append("<td").append(alignment(column)).append('>');
                html.append(Html.escape(column.getString(row))).append("</td>");
            }
            html.append("</tr>\n");
        }
    }

    private static String alignment(Column<?> column) {
        return " style=\"text-align: " + (column instanceof NumericColumn ? "right" : "left") + "\"";
    }
}
