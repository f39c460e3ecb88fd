package cs336.numbers;

import cs336.bench.Measurements;
import cs336.bench.WholeFile;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.math.MathContext;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.IntFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.NumericColumn;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;
import tech.tablesaw.selection.BitmapBackedSelection;

/**
 * The stored measurements of one machine. A reference selects one number by the problem (the file), the values of some
 * of its columns, and the column of the number:
 *
 * <pre>{@code
 * var h200 = MeasurementQuery.of(Path.of("data/measurements/h200"));
 * double ms = h200.value("benchmarking_script", Map.of("size", "xl", "context", "512", "metric", "forward"), "mean");
 * String text = h200.text("benchmarking_script[size=xl, context=512, metric=forward].std : %.2f ms");
 * String ratio = h200.text("ours[size=xl] / peer[size=xl] : %.2f");
 * String most = h200.text("max[size=small, xl](ours[size={size}] / peer[size={size}]) : %.2f");
 * }</pre>
 *
 * <p>A reference must match exactly one row, and this row must have a number. Otherwise an
 * {@link IllegalArgumentException} says what is missing or ambiguous, or that the case ran out of memory. Numbers are
 * converted only if the format after the colon has a unit. For cases that were measured in several rounds,
 * {@code round=median} selects the round with the middle median (the larger of two). A query reads each file once and
 * does not see rows that are stored later.
 */
public final class MeasurementQuery {
    private static final int MOST_EXAMPLES = 6; // of differing values in a message
    private static final Pattern TABLE = Pattern.compile("(?ms)^```table\\n(.*?)^```$");

    private final Path folder;
    private final MeasurementQuery parent; // null for the query that read the files
    private final Map<Path, Table> tables;
    private final Map<Column<?>, String[]> texts; // of the cells of columns that selections filter
    private final Map<Path, Set<Integer>> used = new TreeMap<>();
    private final Map<String, Selection> selections;
    private final Map<String, Quantity> quantities;

    private MeasurementQuery(Path folder) {
        this.folder = folder;
        parent = null;
        tables = new TreeMap<>();
        texts = new IdentityHashMap<>();
        selections = new LinkedHashMap<>();
        quantities = new LinkedHashMap<>();
    }

    private MeasurementQuery(
            MeasurementQuery parent, Map<String, Selection> selections, Map<String, Quantity> quantities) {
        folder = parent.folder;
        this.parent = parent;
        tables = parent.tables;
        texts = parent.texts;
        this.selections = selections;
        this.quantities = quantities;
    }

    /**
     * Returns the measurements in a machine's folder, such as {@code data/measurements/h200}. References to other
     * machines are resolved in the parent folder.
     *
     * @throws IllegalArgumentException if the folder does not exist
     */
    public static MeasurementQuery of(Path folder) {
        Objects.requireNonNull(folder, "folder must not be null");
        if (!Files.isDirectory(folder)) {
            throw new IllegalArgumentException("no folder of measurements " + folder + otherMachines(folder));
        }
        return new MeasurementQuery(folder);
    }

    /** Returns the folder of the measurements, which also contains the machine's stored traces and timelines. */
    public Path folder() {
        return folder;
    }

    private static String otherMachines(Path folder) {
        Path parent = folder.toAbsolutePath().getParent();
        if (parent == null || !Files.isDirectory(parent)) {
            return "";
        }
        try (var entries = Files.list(parent)) {
            List<String> names = entries.filter(Files::isDirectory)
                    .map(path -> path.getFileName().toString())
                    .sorted()
                    .toList();
            return names.isEmpty() ? "" : "; existing folders: " + String.join(", ", names);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Defines a name for a computed value, for use in references.
     *
     * @param unit unit as written in measurements; empty for a pure number
     * @throws IllegalArgumentException if the name is invalid or already defined
     */
    public MeasurementQuery define(String name, double value, String unit) {
        requireNewName(name);
        quantities.put(name, Quantity.of(value, unit));
        return this;
    }

    /**
     * Defines a name for an expression: a value, or a selection that references can refine with further filters. The
     * expression may use names defined before.
     *
     * @throws IllegalArgumentException if the expression or the name is invalid, the name is already defined, or the
     *     measurements have no such file or column
     */
    public MeasurementQuery define(String name, String expression) {
        requireNewName(name);
        Objects.requireNonNull(expression, "expression must not be null");
        if (Expression.isSelection(expression) && defined(expression.strip()) == null) {
            Selection selection = Expression.selection(expression, this);
            Table table = load(file(selection));
            selection.filters().keySet().forEach(column -> requireColumn(table, column));
            selections.put(name, selection);
        } else {
            quantities.put(name, quantity(expression));
        }
        return this;
    }

    private void requireNewName(String name) {
        if (!name.matches("[A-Za-z_][\\w-]*")) {
            throw new IllegalArgumentException(
                    "name \"" + name + "\" must consist of letters, digits, _ and -, and start with a letter or _");
        }
        if (Expression.isFunction(name)) {
            throw new IllegalArgumentException("name \"" + name + "\" is a function");
        }
        if (quantities.containsKey(name) || selections.containsKey(name)) {
            throw new IllegalArgumentException("name \"" + name + "\" is already defined");
        }
    }

    /**
     * Returns a query of the same measurements whose {@link #origin} contains only the rows that are used through it.
     * These rows also count as used by this query.
     */
    public MeasurementQuery withOwnOrigin() {
        return new MeasurementQuery(this, selections, quantities);
    }

    /**
     * Returns a query of the same measurements with the names defined so far. Names that are defined in it later do not
     * exist in this query. Rows used through it count as used by this query.
     */
    public MeasurementQuery withOwnNames() {
        return new MeasurementQuery(this, new LinkedHashMap<>(selections), new LinkedHashMap<>(quantities));
    }

    /**
     * Returns the devices and commits of the rows used so far, one line for each device, as in {@code NVIDIA H200,
     * commits 27d29cbb74, 808309b815}. For rows of a file of single steps, they are read from the file with the
     * statistics.
     */
    public String origin() {
        var commits = new LinkedHashMap<String, Set<String>>();
        used().forEach((file, rows) -> {
            Table from = rows.containsColumn("device") ? rows : load(statistics(file));
            for (int row = 0; row < from.rowCount(); row++) {
                commits.computeIfAbsent(cell(from, row, "device"), device -> new TreeSet<>())
                        .add(cell(from, row, "commit"));
            }
        });
        return commits.entrySet().stream()
                .map(entry -> entry.getKey()
                        + (entry.getValue().size() == 1 ? ", commit " : ", commits ")
                        + String.join(", ", entry.getValue()))
                .collect(Collectors.joining("\n"));
    }

    private static Path statistics(Path steps) {
        return steps.resolveSibling(steps.getFileName().toString().replaceFirst("_steps\\.csv$", ".csv"));
    }

    /**
     * Returns all measurements of a problem.
     *
     * @param problem file name without extension
     * @throws IllegalArgumentException if there is no such file
     * @throws UncheckedIOException if the file cannot be read
     */
    public Table table(String problem) {
        return load(file(new Selection(problem, null, Map.of())));
    }

    /**
     * Returns the rows of a selection such as {@code benchmarking_script[size=small, xl, metric=forward]}, in file
     * order.
     *
     * @throws IllegalArgumentException if a column does not exist or no row matches
     */
    public Table select(String selection) {
        return select(Expression.selection(selection, this));
    }

    /**
     * Returns the rows of a selection in which some columns contain numbers.
     *
     * @param numeric the columns that must exist and contain a number in each of the rows
     * @throws IllegalArgumentException if they do not, or no row matches; the message names the file and the line
     */
    public Table selectWithNumbers(String selection, String... numeric) {
        Objects.requireNonNull(numeric, "numeric must not be null");
        Selection parsed = Expression.selection(selection, this);
        Table rows = select(parsed);
        Table all = load(file(parsed));
        for (String column : numeric) {
            requireColumn(all, column);
            for (int row : requireRows(parsed)) {
                String text = cell(all, row, column);
                try {
                    Double.parseDouble(text);
                } catch (NumberFormatException e) {
                    throw new IllegalArgumentException(
                            file(parsed) + ", line " + (row + 2) + ": " + column + " must be a number, not '" + text
                                    + "'",
                            e);
                }
            }
        }
        return rows;
    }

    /**
     * Returns one number in its stored unit.
     *
     * @param problem file name without extension
     * @param filters values by column
     * @param column column of the number: {@code mean}, {@code std}, {@code median} …
     * @throws IllegalArgumentException if not exactly one row matches the filters, or it has no number
     */
    public double value(String problem, Map<String, ?> filters, String column) {
        var values = new LinkedHashMap<String, List<String>>();
        filters.forEach((name, value) -> values.put(name, List.of(String.valueOf(value))));
        return quantity(new Selection(problem, null, values), column).value();
    }

    /**
     * Returns the value of an {@link Expression}: references and numbers joined by +, -, * and /. A sum has the unit of
     * its first term, a quotient of equal dimensions has none.
     *
     * @throws IllegalArgumentException if the expression is malformed, a selection is not exactly one number, the units
     *     of a sum or difference have different dimensions, or a divisor is 0
     */
    public Quantity quantity(String expression) {
        return Expression.evaluate(expression, this).value();
    }

    /**
     * Returns a formatted number for an expression, a colon and a format: {@code xl[metric=forward] : %.1f ms}. If the
     * expression is one extreme, the format may name its place in parentheses: <code>
     * max[size=small, xl](ours[size={size}])
     * : %.1f ms ({size})</code>.
     *
     * @throws IllegalArgumentException if the expression or the format is malformed, a selection is not exactly one
     *     number, or the unit of the format has another dimension
     */
    public String text(String reference) {
        int colon = reference.lastIndexOf(':');
        if (colon < 0) {
            throw new IllegalArgumentException("no format: add it after a colon, as in \"… : %.1f ms\"");
        }
        ReferenceFormat format = ReferenceFormat.parse(reference.substring(colon + 1));
        return format.write(Expression.evaluate(reference.substring(0, colon), this));
    }

    /**
     * Resolves the references and tables of a Markdown text in the syntax of the writeup: each <code>{{…}}</code> is
     * replaced by a number, each fenced block {@code table} by a table. Used in notebooks.
     *
     * @throws IllegalArgumentException if a reference or a table cannot be resolved
     */
    public String prose(String markdown) {
        String withNumbers = References.replace(markdown, (line, reference) -> {
            try {
                return closedText(reference);
            } catch (IllegalArgumentException e) {
                String where = reference == null ? "" : ", {{" + reference + "}}";
                throw new IllegalArgumentException("line " + line + where + ": " + e.getMessage(), e);
            }
        });
        return TABLE.matcher(withNumbers)
                .replaceAll(block -> Matcher.quoteReplacement(tableProse(block.group(1)) + "\n"));
    }

    /** Returns the text of a reference; null stands for one that does not end. */
    String closedText(String reference) {
        if (reference == null) {
            throw new IllegalArgumentException("\"}}\" is missing");
        }
        return text(reference);
    }

    private String tableProse(String block) {
        if (!WrittenTable.isWritten(block)) {
            MeasuredTable table = MeasuredTable.read(block, this);
            return table.cells().markdown() + "\n" + table.caption();
        }
        WrittenTable table = WrittenTable.read(block, (line, reference) -> closedText(reference));
        return table.markdown() + "\n\n" + table.caption();
    }

    /** Returns the value defined under a name, or null. */
    Quantity defined(String name) {
        return quantities.get(name);
    }

    /** Returns the selection defined under a name, or null. */
    Selection selectionNamed(String name) {
        return selections.get(name);
    }

    /** Returns the rows of a selection and marks them as used. */
    Table select(Selection selection) {
        Path file = file(selection);
        List<Integer> rows = requireRows(selection);
        use(file, rows);
        return rows(file, rows);
    }

    private void use(Path file, List<Integer> rows) {
        used.computeIfAbsent(file, f -> new TreeSet<>()).addAll(rows);
        if (parent != null) {
            parent.use(file, rows);
        }
    }

    private Table rows(Path file, Collection<Integer> rows) {
        int[] indices = rows.stream().mapToInt(row -> row).toArray();
        return load(file).where(new BitmapBackedSelection(indices));
    }

    /**
     * Returns the number in the only row of a selection. The default of the column, null, is {@code mean}, or
     * {@code value} in a file of single steps.
     */
    Quantity quantity(Selection selection, String column) {
        List<Integer> rows = requireRows(selection);
        Table table = load(file(selection));
        if (rows.size() > 1) {
            throw new IllegalArgumentException(
                    "ambiguous: " + rows.size() + " rows match " + selection + differences(table, rows));
        }
        use(file(selection), rows);
        String name = column != null ? column : table.containsColumn("mean") ? "mean" : "value";
        try {
            return number(table, rows.get(0), name);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(selection + ": " + e.getMessage(), e);
        }
    }

    /** Returns the number in one cell, with the unit of the row if the column is a statistic with a unit. */
    static Quantity number(Table table, int row, String column) {
        requireColumn(table, column);
        if (!hasNumbers(table, row)) {
            throw new IllegalArgumentException("the row has no numbers; its status is " + cell(table, row, "status"));
        }
        if (!(table.column(column) instanceof NumericColumn<?> numbers)
                || table.column(column).isMissing(row)) {
            throw new IllegalArgumentException("column " + column + " of the row has no number");
        }
        boolean measured =
                Set.of("mean", "std", "median", "min", "max", "value").contains(column);
        return Quantity.of(numbers.getDouble(row), measured ? cell(table, row, "unit") : "");
    }

    /** Returns true if a case was measured successfully. */
    static boolean hasNumbers(Table table, int row) {
        return List.of("", "ok").contains(cell(table, row, "status"));
    }

    /** Returns the text of a cell as in the file; empty if the column does not exist. */
    static String cell(Table table, int row, String column) {
        return cells(table, column).apply(row);
    }

    /** Returns the text of a column's cells by row, as in the file; empty texts if the column does not exist. */
    static IntFunction<String> cells(Table table, String column) {
        if (!table.containsColumn(column)) {
            return row -> "";
        }
        Column<?> cells = table.column(column);
        return row -> cell(cells, row);
    }

    private static String cell(Column<?> cells, int row) {
        boolean decimal = cells instanceof DoubleColumn && !cells.isMissing(row);
        return decimal ? formatted(((DoubleColumn) cells).getDouble(row)) : cells.getUnformattedString(row);
    }

    private static String[] texts(Column<?> cells) {
        return IntStream.range(0, cells.size())
                .mapToObj(row -> cell(cells, row))
                .toArray(String[]::new);
    }

    /** Formats a number as 25, 0.5 or 1e23, where Java writes 25.0 and 9.999999999999999E22. */
    private static String formatted(double value) {
        if (!Double.isFinite(value)) {
            return String.valueOf(value);
        }
        var digits = new BigDecimal(value).round(new MathContext(15)).stripTrailingZeros();
        return Math.abs(value) < 1e15
                ? digits.toPlainString()
                : digits.toString().replace("E+", "e");
    }

    /** Returns the rows of each file that have been used so far. */
    Map<Path, Table> used() {
        var result = new LinkedHashMap<Path, Table>();
        used.forEach((file, rows) -> result.put(file, rows(file, rows)));
        return result;
    }

    private List<Integer> requireRows(Selection selection) {
        List<Integer> rows = rows(selection);
        if (rows.isEmpty()) {
            throw new IllegalArgumentException("no row" + unmatched(selection));
        }
        return rows;
    }

    private List<Integer> rows(Selection selection) {
        Table table = load(file(selection));
        var filters = new LinkedHashMap<>(selection.filters());
        filters.keySet().forEach(column -> requireColumn(table, column));
        boolean medianRound = filters.remove("round", List.of("median"));
        List<Integer> rows = IntStream.range(0, table.rowCount()).boxed().toList();
        for (var filter : filters.entrySet()) {
            String[] cells = texts.computeIfAbsent(table.column(filter.getKey()), MeasurementQuery::texts);
            Map<String, Boolean> matching = new HashMap<>(); // by content of the cell
            rows = rows.stream()
                    .filter(row -> matching.computeIfAbsent(
                            cells[row], cell -> filter.getValue().stream().anyMatch(value -> same(cell, value))))
                    .toList();
        }
        return medianRound ? medianRounds(table, rows) : rows;
    }

    /** Returns for each case the round with the middle median; one without numbers only if there is no other. */
    private static List<Integer> medianRounds(Table table, List<Integer> rows) {
        requireColumn(table, "median");
        DoubleColumn medians = table.doubleColumn("median");
        List<String> parameters = table.columnNames().stream()
                .takeWhile(column -> !column.equals("unit"))
                .filter(column -> !column.equals("round"))
                .toList();
        Map<List<String>, List<Integer>> cases = rows.stream()
                .collect(Collectors.groupingBy(row -> parameters.stream()
                        .map(column -> cell(table, row, column))
                        .toList()));
        return cases.values().stream()
                .map(rounds -> {
                    List<Integer> measured = rounds.stream()
                            .filter(row -> !medians.isMissing(row))
                            .sorted(Comparator.comparingDouble(medians::getDouble))
                            .toList();
                    return measured.isEmpty() ? rounds.get(0) : measured.get(measured.size() / 2);
                })
                .sorted()
                .toList();
    }

    /** Returns true if two values are equal as text or as numbers, such as 1e-3 and 0.001. */
    static boolean same(String cell, String value) {
        if (cell.equals(value)) {
            return true;
        }
        if (!beginsLikeNumber(cell) || !beginsLikeNumber(value)) {
            return false; // without an exception, whose stack trace takes longer than the rest of a selection
        }
        try {
            return Double.parseDouble(cell) == Double.parseDouble(value);
        } catch (NumberFormatException e) {
            return false;
        }
    }

    /** Returns whether a text may be a number, as far as its first character shows. */
    private static boolean beginsLikeNumber(String text) {
        return !text.isEmpty() && (text.charAt(0) <= '9' || text.startsWith("Infinity"));
    }

    /** Throws an exception if a table does not have a column. */
    static void requireColumn(Table table, String column) {
        if (!table.containsColumn(column)) {
            throw new IllegalArgumentException("no column " + column + " in " + table.name() + "; it has "
                    + String.join(", ", table.columnNames()));
        }
    }

    /**
     * Returns the part of an error message that names the first filter without a match and the values that the column
     * has.
     */
    private String unmatched(Selection selection) {
        Table table = load(file(selection));
        var tried = new LinkedHashMap<String, List<String>>();
        for (var filter : selection.filters().entrySet()) {
            var before = new Selection(selection.problem(), selection.machine(), Map.copyOf(tried));
            tried.put(filter.getKey(), filter.getValue());
            if (rows(new Selection(selection.problem(), selection.machine(), tried))
                    .isEmpty()) {
                Set<String> existing = new LinkedHashSet<>();
                for (int row : rows(before)) {
                    existing.add(cell(table, row, filter.getKey()));
                }
                return " matches " + selection + ": " + filter.getKey() + " is "
                        + (existing.isEmpty() ? "empty" : String.join(", ", existing)) + " there";
            }
        }
        return " in " + selection.problem();
    }

    /** Returns the part of an error message that names the columns in which rows differ. */
    private static String differences(Table table, List<Integer> rows) {
        var differing = new ArrayList<String>();
        for (Column<?> column : table.columns()) {
            if (Set.of("n", "mean", "std", "median", "min", "max", "value", "date")
                    .contains(column.name())) {
                continue;
            }
            Set<String> values = new LinkedHashSet<>();
            for (int row : rows) {
                values.add(column.getUnformattedString(row));
            }
            if (values.size() > 1) {
                String rest = values.size() > MOST_EXAMPLES ? ", … " + values.size() + " values" : "";
                differing.add(values.stream()
                        .limit(MOST_EXAMPLES)
                        .collect(Collectors.joining(", ", column.name() + " (", rest + ")")));
            }
        }
        return differing.isEmpty() ? "" : "; they differ in " + String.join("; ", differing);
    }

    private Path file(Selection selection) {
        Path machine = selection.machine() == null ? folder : folder.resolveSibling(selection.machine());
        return machine.resolve(selection.problem() + ".csv");
    }

    private Table load(Path file) {
        Table known = tables.get(file);
        if (known == null) {
            if (!Files.isRegularFile(file)) {
                String name = file.getFileName().toString().replaceFirst("\\.csv$", "");
                throw new IllegalArgumentException(
                        "no measurements in " + file + ", and no name \"" + name + "\" is defined so far");
            }
            known = read(file);
            tables.put(file, known);
        }
        return known;
    }

    private static Table read(Path file) {
        try {
            return Measurements.read(file);
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read " + file + ": " + WholeFile.reason(e), e);
        }
    }
}
