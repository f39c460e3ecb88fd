package cs336.notebook;

import cs336.numbers.Tables;
import tech.tablesaw.api.Table;

/** Tablesaw tables as HTML and text, with numbers formatted as in the writeup; long tables are truncated. */
final class TableView {
    private static final int MOST_ROWS = 50;

    private TableView() {}

    static String text(Table table) {
        return Tables.aligned(head(table)) + rest(table);
    }

    static String html(Table table) {
        // Jupyter aligns table cells to the right unless each cell overrides it.
        String html = Tables.html(head(table))
                .replaceAll("<(t[hd]) class=\"number\">", "<$1 style=\"text-align: right\">")
                .replaceAll("<(t[hd])>", "<$1 style=\"text-align: left\">");
        String rest = rest(table);
        return rest.isEmpty() ? html : html + "<p>" + rest + "</p>\n";
    }

    private static Table head(Table table) {
        return table.rowCount() > MOST_ROWS ? table.first(MOST_ROWS) : table;
    }

    private static String rest(Table table) {
        return table.rowCount() > MOST_ROWS ? "… " + table.rowCount() + " rows in total" : "";
    }
}
