package cs336.notebook;

import cs336.charts.TextResource;
import cs336.numbers.Tables;
import cs336.units.Separators;
import java.math.BigDecimal;
import java.math.MathContext;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.FloatColumn;
import tech.tablesaw.api.NumericColumn;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;

/**
 * Tablesaw tables as HTML and text. Numbers of a column have the same number of decimals, and thousands separators
 * except in years. Long tables are truncated; as HTML they scroll, are sorted by a click on a header, and can be
 * searched.
 */
final class TableView {
    private static final int MOST_ROWS = 50;
    private static final int MOST_HTML_ROWS = 1000;

    /** The largest number of rows of a table that neither scrolls nor has a search field. */
    private static final int LONG = 20;

    /** The largest ratio of two numbers of a column that have the same number of decimals. */
    private static final double MOST_RATIO = 1e4;

    private static final int SIGNIFICANT = 4;
    private static final int MOST_DECIMALS = 6;

    /** The number of digits of a column's largest number, before and after the decimal point. */
    private static final int MOST_DIGITS = 5;

    private static final String SCRIPT = TextResource.read(TableView.class, "table.js");

    private TableView() {}

    static String text(Table table) {
        Table head = head(table, MOST_ROWS);
        return Tables.aligned(head, formats(head)) + rest(table, MOST_ROWS);
    }

    static String html(Table table) {
        Table head = head(table, MOST_HTML_ROWS);
        // Jupyter aligns table cells to the right unless each cell overrides it.
        String html = Tables.html(head, formats(head))
                .replaceAll("<(t[hd]) class=\"number\">", "<$1 style=\"text-align: right\">")
                .replaceAll("<(t[hd])>", "<$1 style=\"text-align: left\">");
        if (head.rowCount() > LONG) {
            html = "<div class=\"cs336-table\" style=\"max-height: 32em; overflow: auto\">\n" + html
                    + "</div>\n<script>\n" + SCRIPT + "</script>\n";
        }
        String rest = rest(table, MOST_HTML_ROWS);
        return rest.isEmpty() ? html : html + "<p>" + rest + "</p>\n";
    }

    private static Table head(Table table, int rows) {
        return table.rowCount() > rows ? table.first(rows) : table;
    }

    private static String rest(Table table, int rows) {
        return table.rowCount() > rows ? String.format(Locale.ROOT, "… %,d rows in total", table.rowCount()) : "";
    }

    private static Map<String, String> formats(Table table) {
        Map<String, String> formats = new HashMap<>();
        for (Column<?> column : table.columns()) {
            String format = column instanceof NumericColumn<?> numbers ? format(numbers) : null;
            if (format != null) {
                formats.put(column.name(), format);
            }
        }
        return formats;
    }

    /** Returns the format of all numbers of a column; null to format each number separately. */
    private static String format(NumericColumn<?> column) {
        double largest = 0;
        double smallest = Double.POSITIVE_INFINITY;
        int decimals = 1;
        boolean whole = true;
        for (int row = 0; row < column.size(); row++) {
            double value = Math.abs(column.getDouble(row));
            if (column.isMissing(row) || value == 0) {
                continue;
            }
            if (Double.isInfinite(value) || value >= Long.MAX_VALUE) {
                return null;
            }
            var rounded = new BigDecimal(value, new MathContext(SIGNIFICANT)).stripTrailingZeros();
            decimals = value == Math.rint(value) ? decimals : Math.max(decimals, rounded.scale());
            whole &= value == Math.rint(value);
            largest = Math.max(largest, value);
            smallest = Math.min(smallest, value);
        }
        boolean fractions = column instanceof DoubleColumn || column instanceof FloatColumn;
        if (whole) {
            String separator = Separators.isYear(column.name()) ? "" : ",";
            return "%" + separator + (fractions ? ".0f" : "d");
        }
        if (largest / smallest > MOST_RATIO || decimals > MOST_DECIMALS) {
            return null;
        }
        // No more digits than the largest number needs, but two of the smallest.
        int useful = Math.max(MOST_DIGITS - digits(largest), 2 - digits(smallest));
        return "%,." + Math.max(1, Math.min(decimals, useful)) + "f";
    }

    /** Returns the number of digits before the decimal point; negative or zero for numbers less than one. */
    private static int digits(double value) {
        return (int) Math.floor(Math.log10(value)) + 1;
    }
}
