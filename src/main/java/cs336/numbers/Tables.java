package cs336.numbers;

import cs336.units.Separators;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.math.BigDecimal;
import java.math.MathContext;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.LongColumn;
import tech.tablesaw.api.NumericColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;

/**
 * Conversion of records to tables, and of tables to Markdown, HTML and aligned text. By default whole numbers have all
 * digits, other numbers four significant digits, both have thousands separators, and a missing cell is a dash. The
 * parameter {@code formats} maps column headers to a {@link String#format}: {@code %.1f} for columns of type double,
 * {@code %,d} for int and long. A format for another type, or for a column that the table does not have, causes an
 * {@link IllegalArgumentException}.
 */
public final class Tables {
    private static final String MISSING = "–";

    private Tables() {}

    /**
     * Returns a table with one row per record and one column per component. Columns are of type int, long, double or
     * text; a null is a missing cell.
     *
     * @param type class of the records; the names of its components or their {@link Header} are the column headers
     */
    public static <R extends Record> Table of(Class<R> type, List<R> records) {
        Objects.requireNonNull(records, "records must not be null");
        Table table = Table.create();
        for (RecordComponent component : type.getRecordComponents()) {
            Header header = component.getAnnotation(Header.class);
            Column<?> column = column(header == null ? component.getName() : header.value(), component.getType());
            for (R each : records) {
                Object value = value(component, each);
                if (value == null) {
                    column.appendMissing();
                } else if (column instanceof StringColumn text) {
                    text.append(value.toString());
                } else {
                    column.appendObj(value);
                }
            }
            table.addColumns(column);
        }
        return table;
    }

    private static Column<?> column(String name, Class<?> type) {
        if (type == int.class || type == Integer.class) {
            return IntColumn.create(name);
        }
        if (type == long.class || type == Long.class) {
            return LongColumn.create(name);
        }
        if (type == double.class || type == Double.class) {
            return DoubleColumn.create(name);
        }
        return StringColumn.create(name);
    }

    private static Object value(RecordComponent component, Object each) {
        try {
            Method accessor = component.getAccessor();
            accessor.setAccessible(true); // records are often private to the class that fills the table
            return accessor.invoke(each);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Returns a table in GitHub-flavoured Markdown. */
    public static String markdown(Table table) {
        return markdown(table, Map.of());
    }

    /** Returns a table in GitHub-flavoured Markdown, with formats by column. */
    public static String markdown(Table table, Map<String, String> formats) {
        return text(table, formats).markdown();
    }

    /** Returns an HTML table. */
    public static String html(Table table) {
        return html(table, Map.of());
    }

    /** Returns an HTML table, with formats by column. */
    public static String html(Table table, Map<String, String> formats) {
        return text(table, formats).html();
    }

    /** Returns a table as text with aligned columns. */
    public static String aligned(Table table) {
        return aligned(table, Map.of());
    }

    /** Returns a table as text with aligned columns, with formats by column. */
    public static String aligned(Table table, Map<String, String> formats) {
        return text(table, formats).text();
    }

    private static TextTable text(Table table, Map<String, String> formats) {
        for (String column : formats.keySet()) {
            if (!table.containsColumn(column)) {
                throw new IllegalArgumentException("formats has the column \"" + column
                        + "\", but the table has only the columns " + String.join(", ", table.columnNames()));
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
            String number = number(numbers.getDouble(row));
            return Separators.isYear(column.name()) ? number.replace(",", "") : number;
        }
        return column.getUnformattedString(row);
    }

    /** Formats a whole number with all digits, and another number with four significant digits. */
    private static String number(double value) {
        if (value == Math.rint(value) && Math.abs(value) < 1e15) {
            return Separators.of((long) value);
        }
        if (Double.isInfinite(value)) {
            return value > 0 ? "∞" : "−∞";
        }
        var rounded = new BigDecimal(value, new MathContext(4));
        return Math.abs(value) >= 1e-4 && Math.abs(value) < 1e15
                ? String.format(Locale.ROOT, "%,." + Math.max(0, rounded.scale()) + "f", rounded)
                : String.format(Locale.ROOT, "%.3e", value);
    }
}
