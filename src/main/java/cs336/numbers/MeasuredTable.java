package cs336.numbers;

import cs336.units.Separators;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.IntFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import tech.tablesaw.api.Table;

/**
 * A table of measurements, described by a fenced Markdown block with the info string {@code table}:
 *
 * <pre>
 * from: benchmarking_script[implementation=plain, metric=forward]
 * rows: size
 * columns: context
 * cells: mean ± std
 * format: %.1f ms
 * labels: context = tokens; small = small model; context 128 = 128 tokens
 * caption: Time of a forward pass.
 * name: forward
 * </pre>
 *
 * <ul>
 *   <li>{@code rows} and {@code columns} name columns of the file. Filtered values have the order of the filter in
 *       {@code from}. Without a filter, numbers ascend and other values have the order of the file.
 *   <li>{@code cells} is a template in which names of statistics are replaced by their values. Without {@code columns}
 *       it is a comma-separated list of statistics, one column each.
 *   <li>{@code over} divides each cell by the same statistic of another case. It is a selection, or only filters that
 *       replace those of {@code from}: {@code [implementation=peer]} divides by the same case of the implementation
 *       {@code peer}.
 *   <li>{@code labels} replaces the names and values of the row and column keys by words, separated by semicolons:
 *       {@code bucket_mb = bucket (MB)}, {@code zero-1 = ZeRO stage 1}. A value of one column only is written after the
 *       column's name: {@code bucket_mb 0 = none}. A label such as {@code cell 24 = fp32} replaces a formatted cell; a
 *       table with such labels has no unit.
 *   <li>{@code format} is a conversion and a unit. All numbers are converted to the unit, which is appended to the
 *       caption.
 * </ul>
 *
 * <p>A line that begins with a space continues the line before. A case that ran out of memory is shown as its status, a
 * case without a measurement as a dash.
 *
 * @param name name for links such as {@code [Table](#table-forward)}; may be empty
 * @param caption caption with the unit, in Markdown
 * @param cells headers and formatted cells
 */
public record MeasuredTable(String name, String caption, TextTable cells) {
    private static final Set<String> KEYS =
            Set.of("from", "rows", "columns", "cells", "format", "caption", "name", "over", "labels");
    private static final Set<String> STATISTICS = Set.of("n", "mean", "std", "median", "min", "max", "value");
    private static final Pattern WORD = Pattern.compile("[a-z_]+");
    private static final Pattern NUMBER = Pattern.compile("-?\\d+(\\.\\d+)?(e\\d+)?");
    private static final String UNMEASURED = "–";

    /**
     * Returns the table that a block describes.
     *
     * @param block content of the fenced block
     * @param numbers measurements that {@code from} and {@code over} select from
     * @throws IllegalArgumentException if a key is unknown, missing or given twice, a selection matches no row, a cell
     *     matches several rows, or the units of the cells differ
     */
    public static MeasuredTable read(String block, MeasurementQuery numbers) {
        Map<String, String> keys = keys(block);
        Selection from = Expression.selection(keys.get("from"), numbers);
        Table table = numbers.select(from);
        List<String> rowKeys = list(keys.get("rows"));
        List<String> columnKeys = list(keys.getOrDefault("columns", ""));
        var format = NumberFormat.parse(keys.get("format"));
        Divisor divisor = keys.containsKey("over") ? divisor(from, keys.get("over"), numbers) : null;
        List<String> allKeys = concat(rowKeys, columnKeys);
        allKeys.forEach(key -> MeasurementQuery.requireColumn(table, key));
        var writer = new Cells(table, divisor, format, allKeys);
        var labels = new Labels(keys.getOrDefault("labels", ""));
        String shown = keys.getOrDefault("cells", table.containsColumn("mean") ? "mean" : "value");
        TextTable cells = columnKeys.isEmpty()
                ? listed(from, rowKeys, list(shown), writer, labels)
                : crossed(from, rowKeys, columnKeys, shown, writer, labels);
        labels.requireAllUsed();
        String unit = labels.replaceCells() ? "" : writer.unit();
        String caption = References.replace(
                        keys.getOrDefault("caption", ""), (line, reference) -> numbers.closedText(reference))
                .strip();
        if (!unit.isEmpty()) {
            caption = caption.endsWith(".")
                    ? caption.substring(0, caption.length() - 1) + " (" + unit + ")."
                    : (caption + " (" + unit + ")").strip();
        }
        return new MeasuredTable(keys.getOrDefault("name", ""), caption, cells);
    }

    private static Map<String, String> keys(String block) {
        var keys = new LinkedHashMap<String, String>();
        for (String line : block.replaceAll("\\R +(?=\\S)", " ").split("\n")) {
            int colon = line.indexOf(':');
            if (line.isBlank()) {
                continue;
            }
            String key = colon < 0 ? line.strip() : line.substring(0, colon).strip();
            if (colon < 0 || !KEYS.contains(key)) {
                throw new IllegalArgumentException("\"" + key + "\" is not one of "
                        + String.join(", ", KEYS.stream().sorted().toList()));
            }
            if (keys.put(key, line.substring(colon + 1).strip()) != null) {
                throw new IllegalArgumentException(key + " must not be given twice");
            }
        }
        for (String required : List.of("from", "rows", "format")) {
            if (keys.getOrDefault(required, "").isEmpty()) {
                throw new IllegalArgumentException("a table must have a line \"" + required + ": …\"");
            }
        }
        return keys;
    }

    /**
     * The cases that cells are divided by.
     *
     * @param table rows of these cases
     * @param fixed columns that have one fixed value in these cases
     */
    private record Divisor(Table table, Set<String> fixed) {}

    private static Divisor divisor(Selection from, String over, MeasurementQuery numbers) {
        boolean refinesFrom = over.startsWith("[");
        Selection named = Expression.selection(refinesFrom ? from.problem() + over : over, numbers);
        var fixed = new HashSet<>(named.filters().keySet());
        fixed.removeIf(column -> named.filters().get(column).size() > 1);
        return new Divisor(numbers.select(refinesFrom ? from.refined(named.filters()) : named), fixed);
    }

    /** Returns a table with one row per case and one column per statistic. */
    private static TextTable listed(
            Selection from, List<String> rowKeys, List<String> statistics, Cells cells, Labels labels) {
        var rows = new ArrayList<List<String>>();
        for (List<String> row : cells.values(from, rowKeys)) {
            var line = labels.values(rowKeys, row);
            for (String statistic : statistics) {
                line.add(labels.cell(cells.text(row, statistic)));
            }
            rows.add(line);
        }
        return table(labels.names(concat(rowKeys, statistics)), rowKeys.size(), rows);
    }

    /** Returns a table with one row per combination of row values and one column per combination of column values. */
    private static TextTable crossed(
            Selection from,
            List<String> rowKeys,
            List<String> columnKeys,
            String template,
            Cells cells,
            Labels labels) {
        List<List<String>> columns = cells.values(from, columnKeys);
        var rows = new ArrayList<List<String>>();
        for (List<String> row : cells.values(from, rowKeys)) {
            var line = labels.values(rowKeys, row);
            for (List<String> column : columns) {
                line.add(labels.cell(cells.text(concat(row, column), template)));
            }
            rows.add(line);
        }
        var headers = new ArrayList<>(labels.names(rowKeys));
        for (List<String> column : columns) {
            String value = String.join(", ", labels.values(columnKeys, column));
            // A header that is only a number needs the name of its column.
            headers.add(isNumber(value.replace(",", "")) ? labels.name(columnKeys.get(0)) + " " + value : value);
        }
        return table(headers, rowKeys.size(), rows);
    }

    /** Returns whether a cell contains a number as {@link MeasurementQuery#cell} writes it. */
    private static boolean isNumber(String cell) {
        return NUMBER.matcher(cell).matches();
    }

    private static TextTable table(List<String> headers, int keys, List<List<String>> rows) {
        var right = new ArrayList<Boolean>();
        for (int c = 0; c < headers.size(); c++) {
            right.add(c >= keys);
        }
        return new TextTable(headers, right, rows);
    }

    /** The words that replace the names and values of key columns. */
    private static final class Labels {
        private static final String CELL = "cell ";

        private final Map<String, String> words = new LinkedHashMap<>();
        private final Set<String> used = new HashSet<>();

        Labels(String text) {
            for (String label : text.isBlank() ? new String[0] : text.split(";")) {
                String[] sides = label.split(" = ", 2);
                if (sides.length < 2 || sides[0].isBlank() || sides[1].isBlank()) {
                    throw new IllegalArgumentException(
                            "label \"" + label.strip() + "\" must be of the form \"zero-1 = ZeRO stage 1\"");
                }
                if (words.put(sides[0].strip(), sides[1].strip()) != null) {
                    throw new IllegalArgumentException("\"" + sides[0].strip() + "\" must not have two labels");
                }
            }
        }

        String name(String key) {
            used.add(key);
            return words.getOrDefault(key, key);
        }

        List<String> names(List<String> keys) {
            return keys.stream().map(this::name).toList();
        }

        /** Returns the words for the values of some columns, in a new list; numbers without a word have separators. */
        List<String> values(List<String> columns, List<String> values) {
            var result = new ArrayList<String>();
            for (int c = 0; c < columns.size(); c++) {
                String qualified = columns.get(c) + " " + values.get(c);
                String value = values.get(c);
                result.add(
                        words.containsKey(qualified)
                                ? name(qualified)
                                : words.containsKey(value) ? name(value) : Separators.of(columns.get(c), value));
            }
            return result;
        }

        boolean replaceCells() {
            return words.keySet().stream().anyMatch(key -> key.startsWith(CELL));
        }

        /** Returns the word for a formatted cell, or the cell itself. */
        String cell(String text) {
            return words.containsKey(CELL + text) ? name(CELL + text) : text;
        }

        void requireAllUsed() {
            for (String key : words.keySet()) {
                if (!used.contains(key)) {
                    throw new IllegalArgumentException(
                            "label \"" + key + "\" is not a name or value of a row or column, or a cell, of the table");
                }
            }
        }
    }

    private static List<String> list(String text) {
        return text.isBlank() ? List.of() : List.of(text.strip().split("\\s*,\\s*"));
    }

    private static List<String> concat(List<String> a, List<String> b) {
        var both = new ArrayList<>(a);
        both.addAll(b);
        return both;
    }

    /** A formatter of cells, which finds the row of each cell by the values of the key columns. */
    private static final class Cells {
        private final Table table;
        private final Divisor divisor;
        private final NumberFormat format;
        private final List<String> keys;
        private final Set<String> units = new LinkedHashSet<>();

        Cells(Table table, Divisor divisor, NumberFormat format, List<String> keys) {
            this.table = table;
            this.divisor = divisor;
            this.format = format;
            this.keys = keys;
        }

        /** Returns the unit of all numbers. */
        String unit() {
            if (format.unit() != null) {
                return format.unit().symbol();
            }
            if (units.size() > 1) {
                throw new IllegalArgumentException("the cells are in different units (" + String.join(", ", units)
                        + "); the format must have a unit, as in \"%.1f ms\"");
            }
            return units.isEmpty() ? "" : units.iterator().next();
        }

        /**
         * Returns the distinct combinations of values in some columns. Values with a filter have the filter's order;
         * without a filter other values, in the order of the file, precede numbers, which ascend.
         */
        List<List<String>> values(Selection from, List<String> columns) {
            Set<List<String>> found = new LinkedHashSet<>();
            for (int row = 0; row < table.rowCount(); row++) {
                var values = new ArrayList<String>();
                for (String column : columns) {
                    values.add(MeasurementQuery.cell(table, row, column));
                }
                found.add(values);
            }
            var ordered = new ArrayList<>(found);
            ordered.sort((a, b) -> {
                for (int c = 0; c < columns.size(); c++) {
                    List<String> listed = from.filters().getOrDefault(columns.get(c), List.of());
                    int order = Integer.compare(rank(listed, a.get(c)), rank(listed, b.get(c)));
                    if (order == 0) {
                        order = Boolean.compare(isNumber(a.get(c)), isNumber(b.get(c)));
                    }
                    if (order == 0 && isNumber(a.get(c)) && isNumber(b.get(c))) {
                        order = Double.compare(Double.parseDouble(a.get(c)), Double.parseDouble(b.get(c)));
                    }
                    if (order != 0) {
                        return order;
                    }
                }
                return 0;
            });
            return ordered;
        }

        private static int rank(List<String> listed, String value) {
            for (int i = 0; i < listed.size(); i++) {
                if (MeasurementQuery.same(value, listed.get(i))) {
                    return i;
                }
            }
            return listed.size();
        }

        /** Returns the text of the cell of one case. */
        String text(List<String> values, String template) {
            int row = findRow(table, values, Set.of());
            if (row < 0) {
                return UNMEASURED;
            }
            if (!MeasurementQuery.hasNumbers(table, row)) {
                return MeasurementQuery.cell(table, row, "status").toUpperCase(Locale.ROOT);
            }
            int divisorRow = divisor == null ? -1 : findRow(divisor.table, values, divisor.fixed);
            if (divisor != null && (divisorRow < 0 || !MeasurementQuery.hasNumbers(divisor.table, divisorRow))) {
                return UNMEASURED;
            }
            return WORD.matcher(template)
                    .replaceAll(word -> Matcher.quoteReplacement(statistic(row, divisorRow, word.group(), template)));
        }

        /** Returns one statistic of a row, divided by that of the divisor's row if there is one. */
        private String statistic(int row, int divisorRow, String column, String template) {
            if (!STATISTICS.contains(column)) {
                throw new IllegalArgumentException("\"" + column + "\" in the cells \"" + template
                        + "\" is not one of mean, std, median, min, max, n, value");
            }
            if (divisor != null && Set.of("n", "std").contains(column)) {
                throw new IllegalArgumentException(
                        "\"" + column + "\" must not be in the cells of a table with \"over\"");
            }
            MeasurementQuery.requireColumn(table, column);
            if (table.column(column).isMissing(row)) {
                return UNMEASURED;
            }
            Quantity quantity = MeasurementQuery.number(table, row, column);
            if (column.equals("n")) {
                return Separators.of((long) quantity.value());
            }
            if (divisorRow >= 0) {
                quantity = quantity.dividedBy(MeasurementQuery.number(divisor.table, divisorRow, column));
            }
            units.add(quantity.unit().symbol());
            return format.number(quantity);
        }

        /**
         * Returns the row with the given values in the key columns except the fixed ones, or -1.
         *
         * @throws IllegalArgumentException if there are several
         */
        private int findRow(Table table, List<String> values, Set<String> fixed) {
            List<IntFunction<String>> columns =
                    keys.stream().map(key -> MeasurementQuery.cells(table, key)).toList();
            int found = -1;
            for (int row = 0; row < table.rowCount(); row++) {
                boolean matches = true;
                for (int k = 0; matches && k < keys.size(); k++) {
                    matches = fixed.contains(keys.get(k))
                            || MeasurementQuery.same(columns.get(k).apply(row), values.get(k));
                }
                if (matches && found >= 0) {
                    var conditions = new ArrayList<String>();
                    for (int k = 0; k < keys.size(); k++) {
                        conditions.add(keys.get(k) + "=" + values.get(k));
                    }
                    throw new IllegalArgumentException("ambiguous: more than one row of " + table.name() + " has "
                            + String.join(", ", conditions) + "; filter more columns in the selection");
                }
                found = matches ? row : found;
            }
            return found;
        }
    }
}
