package cs336.bench;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.MathContext;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.LongColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;

/**
 * The stored measurements of one problem on one machine: a tidy CSV file,
 * {@code data/measurements/<machine>/<problem>.csv}, with one row for each case and metric. Its first columns are the
 * parameters of the cases ({@code size}, {@code context} …), followed by {@code implementation}, {@code metric},
 * {@code unit}, {@code n}, {@code mean}, {@code std}, {@code median}, {@code min}, {@code max}, {@code status},
 * {@code device}, {@code versions}, {@code commit}, {@code date}, {@code host}, {@code load}. A cell without a number
 * is empty, such as the mean of an out-of-memory case or the standard deviation of a single sample; an infinite number
 * is {@code Infinity}. In files without the last two columns, these cells are empty.
 *
 * <p>The values of single steps can be stored in {@code <problem>_steps.csv} in the same folder: the parameters, then
 * {@code implementation}, {@code metric}, {@code unit}, {@code step} (from 1), {@code value}.
 *
 * <p>Rows are on disk when {@link #put} returns. If a process was killed while it wrote, the incomplete last line is
 * ignored. Several processes may store rows in the same file; they lock {@code <problem>.csv.lock}.
 */
public final class Measurements {
    private static final List<String> NUMBERS = List.of("n", "mean", "std", "median", "min", "max");
    private static final List<String> COLUMNS = concat(
            List.of("implementation", "metric", "unit"),
            NUMBERS,
            List.of("status", "device", "versions", "commit", "date", "host", "load"));
    /** Columns at the end that older files do not have. */
    private static final List<String> LATER_COLUMNS = List.of("host", "load");

    /** Parameters that are integers in all files, with which figures and predictions calculate. */
    private static final Set<String> INTEGERS =
            Set.of("batch", "context", "d", "heads", "loss_rows", "nodes", "processes", "rank", "round", "year");

    /** Parameters that are numbers in all files. */
    private static final Set<String> DECIMALS = Set.of("bucket_mb", "megabytes");

    private static final Pattern INTEGER = Pattern.compile("-?\\d{1,10}");
    private static final String DECIMAL = "-?\\d+(\\.\\d+)?([eE][-+]?\\d+)?";
    private static final Pattern NUMBER = Pattern.compile(DECIMAL + "|-?Infinity");
    private static final List<String> STEP_COLUMNS = List.of("implementation", "metric", "unit", "step", "value");

    private final TidyCsv rows;
    private final TidyCsv steps;

    /**
     * Opens the measurements in a file, which does not have to exist yet.
     *
     * @throws IllegalArgumentException if the file's name does not end in {@code .csv}
     */
    public Measurements(Path csv) {
        if (!csv.toString().endsWith(".csv")) {
            throw new IllegalArgumentException("csv must be a file name that ends in .csv, not " + csv);
        }
        rows = new TidyCsv(csv);
        steps = new TidyCsv(csv.resolveSibling(csv.getFileName().toString().replaceFirst("\\.csv$", "_steps.csv")));
    }

    /** Opens the measurements of a problem, {@code folder/machine/problem.csv}. */
    public static Measurements of(Path folder, String machine, String problem) {
        Objects.requireNonNull(folder, "folder must not be null");
        Objects.requireNonNull(machine, "machine must not be null");
        return new Measurements(folder.resolve(machine).resolve(problem + ".csv"));
    }

    /** Returns the file of the measurements. */
    public Path path() {
        return rows.path();
    }

    /** Returns the file of the values of single steps. */
    public Path stepsPath() {
        return steps.path();
    }

    /**
     * Reads stored measurements or stored steps. {@code n} and {@code step} are integers, the statistics, {@code value}
     * and {@code load} are doubles. A parameter is numeric if all of its values are numbers; otherwise it is text, such
     * as a size of {@code 2.7B}. Parameters that are numbers in all files, such as {@code context}, must be numbers.
     * All other columns are text.
     *
     * @throws NoSuchFileException if the file does not exist
     * @throws IOException if the file cannot be read, or a line is damaged: it is not UTF-8, it and the header have
     *     different numbers of cells, or a cell is not a number where one is expected
     */
    public static Table read(Path csv) throws IOException {
        Objects.requireNonNull(csv, "csv must not be null");
        if (!Files.exists(csv)) {
            throw new NoSuchFileException(csv.toString());
        }
        return table(new TidyCsv(csv));
    }

    private static Table table(TidyCsv file) throws IOException {
        List<List<String>> lines = lines(file);
        Table table = Table.create(file.path().getFileName().toString());
        if (lines.isEmpty()) {
            return table;
        }
        List<String> header = lines.get(0);
        int parameters = header.indexOf("implementation");
        for (int c = 0; c < header.size(); c++) {
            int at = c;
            List<String> cells =
                    lines.stream().skip(1).map(line -> line.get(at)).toList();
            table.addColumns(column(file, header.get(c), cells, c < parameters));
        }
        return table;
    }

    /** Returns these measurements as a table; see {@link #read(Path)}. */
    public Table table() throws IOException {
        return read(path());
    }

    /**
     * Returns whether a case is stored: each of its metrics has a row, and no row has status {@code error} or
     * {@code incomplete}. The file may contain rows of further metrics.
     */
    public boolean holds(Case c) throws IOException {
        List<List<String>> lines = rows.lines();
        if (lines.isEmpty()) {
            return false;
        }
        List<String> header = lines.get(0);
        int metric = header.indexOf("metric"), status = header.indexOf("status");
        if (metric < 0 || status < 0) {
            throw rows.damaged(1, "the header has no column " + (metric < 0 ? "metric" : "status"));
        }
        Set<String> found = new LinkedHashSet<>();
        for (List<String> row :
                lines.stream().skip(1).filter(isRowOf(c, header)).toList()) {
            if (List.of(Status.ERROR.toString(), Status.INCOMPLETE.toString()).contains(row.get(status))) {
                return false;
            }
            found.add(row.get(metric));
        }
        return !found.isEmpty()
                && found.containsAll(c.metrics().stream().map(Metric::name).toList());
    }

    /**
     * Stores the rows of a case and replaces its earlier rows. The rows are on disk when this method returns.
     *
     * @throws IllegalArgumentException if the file's parameter columns differ from the case's parameters, or a
     *     parameter has the name of another column, such as {@code n}; upper and lower case are not distinguished
     */
    public void put(Case c, List<Measurement> measured, Provenance provenance) throws IOException {
        Objects.requireNonNull(c, "c must not be null");
        Objects.requireNonNull(measured, "measured must not be null");
        putAll(c, Map.of(c, measured), provenance);
    }

    /**
     * Stores the rows of several cases at once, such as one per kernel of a profile. They replace all earlier rows with
     * the implementation and the parameters of {@code common}, also those of other cases. The rows are on disk when
     * this method returns.
     *
     * @param common the implementation and the parameters that the cases have in common
     * @param measured rows by case; all cases have parameters of the same names
     * @throws IllegalArgumentException if there is no case, or their parameters are rejected as by {@link #put}
     */
    public void putAll(Case common, Map<Case, List<Measurement>> measured, Provenance provenance) throws IOException {
        Objects.requireNonNull(common, "common must not be null");
        Objects.requireNonNull(measured, "measured must not be null");
        Objects.requireNonNull(provenance, "provenance must not be null");
        var cells = new ArrayList<List<String>>();
        measured.forEach((c, values) -> values.forEach(m -> cells.add(row(c, m, provenance))));
        Case any = measured.keySet().stream()
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("measured must not be empty"));
        rows.exclusively(() -> put(rows, any, common, COLUMNS, cells));
    }

    private static List<String> row(Case c, Measurement m, Provenance provenance) {
        Summary s = m.summary();
        List<String> numbers = s == null
                ? List.of("", "", "", "", "", "")
                : Stream.concat(
                                Stream.of(String.valueOf(s.n())),
                                Stream.of(s.mean(), s.std(), s.median(), s.min(), s.max())
                                        .map(Measurements::number))
                        .toList();
        return concat(
                List.copyOf(c.parameters().values()),
                List.of(c.implementation(), m.metric().name(), m.metric().unit()),
                numbers,
                List.of(
                        m.status().toString(),
                        provenance.device(),
                        provenance.versions(),
                        provenance.commit(),
                        provenance.date(),
                        provenance.host(),
                        provenance.load()));
    }

    /**
     * Stores the values of the steps of a case and replaces its earlier ones. They are on disk when this method
     * returns.
     *
     * @throws IllegalArgumentException if the parameters are rejected as by {@link #put}
     */
    public void putSteps(Case c, List<Samples> samples) throws IOException {
        var cells = new ArrayList<List<String>>();
        for (Samples s : samples) {
            for (int i = 0; i < s.values().size(); i++) {
                cells.add(concat(
                        List.copyOf(c.parameters().values()),
                        List.of(
                                c.implementation(),
                                s.metric().name(),
                                s.metric().unit(),
                                String.valueOf(i + 1),
                                number(s.values().get(i)))));
            }
        }
        steps.exclusively(() -> put(steps, c, c, STEP_COLUMNS, cells));
    }

    /**
     * Checks that the file's columns match a case.
     *
     * @throws IllegalArgumentException if the parameters are rejected as by {@link #put}
     */
    public void requireSameColumns(Case c) throws IOException {
        requireSameColumns(rows, c, COLUMNS);
        requireSameColumns(steps, c, STEP_COLUMNS);
    }

    /** Deletes the rows of all cases. */
    public void clear() throws IOException {
        rows.exclusively(rows::delete);
    }

    /**
     * Checks that rows can be stored, so that an error is reported before anything is measured. Creates the folder if
     * it is missing.
     *
     * @throws IOException if the folder is not writable, or the stored measurements are damaged
     */
    public void requireWritable() throws IOException {
        Path folder = Files.createDirectories(path().toAbsolutePath().getParent());
        if (!Files.isWritable(folder)) {
            throw new AccessDeniedException(folder.toString());
        }
        rows.exclusively(() -> table(rows));
        table(steps);
    }

    private static void requireSameColumns(TidyCsv file, Case c, List<String> columns) throws IOException {
        var names = new HashSet<String>(columns);
        for (String name : c.parameters().keySet()) {
            if (!names.add(name.toLowerCase(Locale.ROOT))) {
                throw new IllegalArgumentException("parameter " + name + " has the name of another column of "
                        + file.path() + "; rename the parameter");
            }
        }
        List<List<String>> lines = lines(file);
        if (lines.isEmpty()) {
            return;
        }
        List<String> expected = concat(List.copyOf(c.parameters().keySet()), columns);
        if (!lines.get(0).equals(expected)) {
            throw new IllegalArgumentException(
                    file.path() + " " + difference(lines.get(0), expected) + ": use another problem name");
        }
    }

    /** Returns what distinguishes the columns of a file from those of a case, to follow the file's name. */
    private static String difference(List<String> header, List<String> expected) {
        List<String> missing =
                expected.stream().filter(name -> !header.contains(name)).toList();
        List<String> additional =
                header.stream().filter(name -> !expected.contains(name)).toList();
        if (missing.isEmpty() && additional.isEmpty()) {
            return "has the columns of the case in another order, " + header;
        }
        var parts = new ArrayList<String>();
        if (!missing.isEmpty()) {
            parts.add("lacks the case's columns " + missing);
        }
        if (!additional.isEmpty()) {
            parts.add("has the additional columns " + additional);
        }
        return String.join(" and ", parts);
    }

    /** Adds rows of the columns of {@code c}, and removes earlier ones of {@code replaced}. */
    private static void put(TidyCsv file, Case c, Case replaced, List<String> columns, List<List<String>> added)
            throws IOException {
        requireSameColumns(file, c, columns);
        List<String> header = concat(List.copyOf(c.parameters().keySet()), columns);
        List<List<String>> lines = lines(file);
        List<List<String>> stored = lines.stream().skip(1).toList();
        List<List<String>> others =
                stored.stream().filter(isRowOf(replaced, header).negate()).toList();
        if (others.size() == stored.size() && lines.equals(file.lines())) {
            file.append(header, added);
        } else {
            file.replace(header, Stream.concat(others.stream(), added.stream()).toList());
        }
    }

    /** Returns header and rows of a file, with empty cells in the columns that an older file does not have. */
    private static List<List<String>> lines(TidyCsv file) throws IOException {
        List<List<String>> lines = file.lines();
        boolean isOlder =
                !lines.isEmpty() && lines.get(0).get(lines.get(0).size() - 1).equals("date");
        if (!isOlder) {
            return lines;
        }
        List<String> empty = Collections.nCopies(LATER_COLUMNS.size(), "");
        return IntStream.range(0, lines.size())
                .mapToObj(i -> concat(lines.get(i), i == 0 ? LATER_COLUMNS : empty))
                .toList();
    }

    /** Returns a filter for the rows of a case, given the file's header. */
    private static Predicate<List<String>> isRowOf(Case c, List<String> header) {
        List<String> names = concat(List.copyOf(c.parameters().keySet()), List.of("implementation"));
        List<String> values = concat(List.copyOf(c.parameters().values()), List.of(c.implementation()));
        int[] at = names.stream().mapToInt(header::indexOf).toArray();
        return row -> {
            for (int i = 0; i < at.length; i++) {
                if (at[i] < 0 || !row.get(at[i]).equals(values.get(i))) {
                    return false;
                }
            }
            return true;
        };
    }

    /** Formats an integer with all digits, and another finite number with nine significant digits. */
    private static String number(double value) {
        if (Double.isNaN(value)) {
            return "";
        }
        if (Double.isInfinite(value)) {
            return String.valueOf(value);
        }
        boolean whole = value == Math.rint(value) && Math.abs(value) < 1e15;
        var decimal = new BigDecimal(value).round(whole ? MathContext.UNLIMITED : new MathContext(9));
        return decimal.signum() == 0 ? "0" : decimal.stripTrailingZeros().toPlainString();
    }

    private static Column<?> column(TidyCsv file, String name, List<String> cells, boolean parameter)
            throws IOException {
        boolean integer = name.equals("n") || name.equals("step");
        if (integer || NUMBERS.contains(name) || List.of("value", "load").contains(name)) {
            requireNumbers(
                    file,
                    name,
                    cells,
                    cell -> cell.isEmpty()
                            || (integer ? isInteger(cell) : NUMBER.matcher(cell).matches()));
            return parsed(integer ? IntColumn.create(name) : DoubleColumn.create(name), cells);
        }
        if (parameter && INTEGERS.contains(name)) {
            requireNumbers(file, name, cells, Measurements::isInteger);
        }
        if (parameter && DECIMALS.contains(name)) {
            requireNumbers(file, name, cells, cell -> cell.matches(DECIMAL));
        }
        if (parameter && allMatch(cells, Measurements::isInteger)) {
            return parsed(IntColumn.create(name), cells);
        }
        if (parameter && allMatch(cells, cell -> cell.matches("-?\\d{1,18}"))) {
            return parsed(LongColumn.create(name), cells);
        }
        if (parameter && allMatch(cells, cell -> cell.matches(DECIMAL))) {
            return parsed(DoubleColumn.create(name), cells);
        }
        return StringColumn.create(name, cells);
    }

    /**
     * Returns whether a cell contains an integer that an {@link IntColumn} can hold; its smallest is a missing value.
     */
    private static boolean isInteger(String cell) {
        if (!INTEGER.matcher(cell).matches()) {
            return false;
        }
        long value = Long.parseLong(cell);
        return value > Integer.MIN_VALUE && value <= Integer.MAX_VALUE;
    }

    private static void requireNumbers(TidyCsv file, String name, List<String> cells, Predicate<String> isNumber)
            throws IOException {
        for (int i = 0; i < cells.size(); i++) {
            if (!isNumber.test(cells.get(i))) {
                throw file.damaged(i + 2, name + " must be a number, not '" + cells.get(i) + "'");
            }
        }
    }

    /** Returns the column with the cells' values; empty cells are missing values. */
    private static Column<?> parsed(Column<?> column, List<String> cells) {
        cells.forEach(column::appendCell);
        return column;
    }

    private static boolean allMatch(List<String> cells, Predicate<String> condition) {
        return !cells.isEmpty() && cells.stream().allMatch(condition);
    }

    @SafeVarargs
    @SuppressWarnings("varargs") // the array is only read
    private static List<String> concat(List<String>... lists) {
        return Stream.of(lists).flatMap(List::stream).toList();
    }
}
