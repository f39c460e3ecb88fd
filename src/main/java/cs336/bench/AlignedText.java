package cs336.bench;

import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import tech.tablesaw.api.NumericColumn;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;

/** A table as text for a terminal: numbers to the right, decimal ones to four significant digits. */
public final class AlignedText {
    private AlignedText() {}

    /** The table's columns side by side under their names. */
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

    /** Heading and cells of a column, all of one width. */
    private static List<String> cells(Column<?> column) {
        List<String> cells = IntStream.rangeClosed(0, column.size())
                .mapToObj(i -> i == 0 ? column.name() : text(column, i - 1))
                .toList();
        int width = cells.stream().mapToInt(String::length).max().orElse(1);
        String format = "%" + (column instanceof NumericColumn ? "" : "-") + Math.max(1, width) + "s";
        return cells.stream().map(format::formatted).toList();
    }

    private static String text(Column<?> column, int row) {
        if (column.isMissing(row)) return "";
        return column.get(row) instanceof Double number ? number(number) : column.getString(row);
    }

    /** 1234567, 12.35, 0.001235. */
    public static String number(double number) {
        if (number == 0 || Math.abs(number) >= 1000) return String.format(Locale.ROOT, "%.0f", number);
        int decimals = 3 - (int) Math.floor(Math.log10(Math.abs(number)));
        return String.format(Locale.ROOT, "%." + decimals + "f", number);
    }
}
