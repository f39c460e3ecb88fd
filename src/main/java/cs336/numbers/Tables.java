package cs336.numbers;

import java.math.BigDecimal;
import java.math.MathContext;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import tech.tablesaw.api.NumericColumn;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;

/**
 * Tables as Markdown, HTML and aligned text. Whole numbers are written as they are, other numbers with four significant
 * digits, and a missing cell as a dash; a format of {@link String#format}, such as {@code %.1f}, can be given for any
 * column.
 */
public final class Tables {
    private static final String MISSING = "–";

    private Tables() {}

    /** GitHub-flavoured Markdown. */
    public static String markdown(Table table) {
        return markdown(table, Map.of());
    }

    /** GitHub-flavoured Markdown, with formats by column. */
    public static String markdown(Table table, Map<String, String> formats) {
        return text(table, formats).markdown();
    }

    /** An HTML table. */
    public static String html(Table table) {
        return html(table, Map.of());
    }

    /** An HTML table, with formats by column. */
    public static String html(Table table, Map<String, String> formats) {
        return text(table, formats).html();
    }

    /** Columns aligned by spaces. */
    public static String aligned(Table table) {
        return aligned(table, Map.of());
    }

    /** Columns aligned by spaces, with formats by column. */
    public static String aligned(Table table, Map<String, String> formats) {
        return text(table, formats).text();
    }

    private static TextTable text(Table table, Map<String, String> formats) {
        for (String column : formats.keySet()) {
            if (!table.containsColumn(column)) {
                throw new IllegalArgumentException("a format is given for column \"" + column
                        + "\", which is not in the table; it has " + String.join(", ", table.columnNames()));
            }
        }
        var numeric = new ArrayList<Boolean>();
        for (Column<?> column : table.columns()) {
            numeric.add(column instanceof NumericColumn<?>);
        }
        var rows = new ArrayList<List<String>>();
        for (int row = 0; row < table.rowCount(); row++) {
            var cells = new ArrayList<String>();
            for (Column<?> column : table.columns()) {
                cells.add(cell(column, row, formats.get(column.name())));
            }
            rows.add(cells);
        }
        return new TextTable(table.columnNames(), numeric, rows);
    }

    private static String cell(Column<?> column, int row, String format) {
        if (column.isMissing(row)) {
            return MISSING;
        }
        if (format != null) {
            return String.format(Locale.ROOT, format, column.get(row));
        }
        if (column instanceof NumericColumn<?> numbers) {
            return number(numbers.getDouble(row));
        }
        return column.getUnformattedString(row);
    }

    /** Four significant digits; whole numbers in full. */
    private static String number(double value) {
        if (value == Math.rint(value) && Math.abs(value) < 1e15) {
            return String.valueOf((long) value);
        }
        if (Double.isInfinite(value)) {
            return value > 0 ? "∞" : "−∞";
        }
        BigDecimal rounded = new BigDecimal(value, new MathContext(4));
        return Math.abs(value) >= 1e-4 && Math.abs(value) < 1e15
                ? rounded.toPlainString()
                : String.format(Locale.ROOT, "%.3e", value);
    }
}
