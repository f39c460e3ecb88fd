package cs336.bench;

import cs336.units.Separators;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import tech.tablesaw.api.NumericColumn;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;

/** A formatter of tables as text: numbers are right-aligned, decimals have four significant digits. */
public final class AlignedText {
    private AlignedText() {}

    /** Returns the rows of a table under its column names, one line each. */
    public static String of(Table table) {
        List<List<String>> columns =
                table.columns().stream().map(AlignedText::cells).toList();
        return IntStream.rangeClosed(0, table.rowCount())
                .mapToObj(row -> columns.stream()
                        .map(cells -> cells.get(row))
                        .collect(Collectors.joining("  "))
                        .stripTrailing())
                .collect(Collectors.joining("\n"));
    }

    /** Returns the name and the cells of a column, padded to the same width. */
    private static List<String> cells(Column<?> column) {
        List<String> cells = IntStream.rangeClosed(0, column.size())
                .mapToObj(i -> i == 0 ? column.name() : text(column, i - 1))
                .toList();
        int width = cells.stream().mapToInt(String::length).max().orElse(1);
        String format = "%" + (column instanceof NumericColumn ? "" : "-") + Math.max(1, width) + "s";
        return cells.stream().map(format::formatted).toList();
    }

    private static String text(Column<?> column, int row) {
        if (column.isMissing(row)) {
            return "";
        }
        String text = column.getString(row);
        if (column.get(row) instanceof Double number) {
            return number(number);
        }
        return column instanceof NumericColumn ? Separators.of(column.name(), text) : text;
    }

    /**
     * Formats a number with four significant digits, or as an integer if it is 1,000 or more: 0.001235, 12.35,
     * 1,234,567. Numbers below a millionth and of a quadrillion or more are in scientific notation: 3.403e+38.
     */
    public static String number(double number) {
        if (number != 0 && Math.abs(number) < 1e-6 || Math.abs(number) >= 1e15) {
            return String.format(Locale.ROOT, "%.3e", number);
        }
        if (number == 0 || Math.abs(number) >= 999.95) {
            return String.format(Locale.ROOT, "%,.0f", number);
        }
        int decimals = 3 - (int) Math.floor(Math.log10(Math.abs(number)));
        return String.format(Locale.ROOT, "%." + decimals + "f", number);
    }
}
