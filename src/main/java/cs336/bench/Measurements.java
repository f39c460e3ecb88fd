package cs336.bench;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.MathContext;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Stream;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.LongColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;

/**
 * The stored measurements of one problem on one machine: a tidy CSV file,
 * {@code data/measurements/<machine>/<problem>.csv}, one row a case and metric. First come the columns of the case's
 * parameters ({@code size}, {@code context} …), then {@code implementation}, {@code metric}, {@code unit}, {@code n},
 * {@code mean}, {@code std}, {@code median}, {@code min}, {@code max}, {@code status}, {@code device},
 * {@code versions}, {@code commit}, {@code date}. A number that does not exist (an out-of-memory case's mean, the
 * spread of a single sample) is an empty cell.
 *
 * <p>Single steps, where they are kept, stand beside it in {@code <problem>_steps.csv}: the parameters, then
 * {@code implementation}, {@code metric}, {@code unit}, {@code step} (from 1), {@code value}.
 *
 * <p>What was written stays: rows are forced to disk before {@link #put} returns, and a file whose last line was cut
 * short by a killed process reads as if that line had not been begun.
 */
public final class Measurements {
    private static final List<String> NUMBERS = List.of("n", "mean", "std", "median", "min", "max");
    private static final List<String> COLUMNS = concat(
            List.of("implementation", "metric", "unit"),
            NUMBERS,
            List.of("status", "device", "versions", "commit", "date"));
    private static final List<String> STEP_COLUMNS = List.of("implementation", "metric", "unit", "step", "value");

    private final TidyCsv rows;
    private final TidyCsv steps;

    /** The measurements in that file, which need not exist yet; its name ends in {@code .csv}. */
    public Measurements(Path csv) {
        if (!csv.toString().endsWith(".csv")) {
            throw new IllegalArgumentException("csv is " + csv + ": a file name that ends in .csv is needed");
        }
        rows = new TidyCsv(csv);
        steps = new TidyCsv(csv.resolveSibling(csv.getFileName().toString().replaceFirst("\\.csv$", "_steps.csv")));
    }

    /** The measurements of a problem: {@code folder/machine/problem.csv}. */
    public static Measurements of(Path folder, String machine, String problem) {
        return new Measurements(folder.resolve(machine).resolve(problem + ".csv"));
    }

    /** Where they are stored. */
    public Path path() {
        return rows.path();
    }

    /** Where single steps are stored. */
    public Path stepsPath() {
        return steps.path();
    }

    /**
     * Stored measurements, or stored steps, as a table. {@code n} and {@code step} are whole numbers, the statistics
     * and {@code value} decimal ones; a parameter is a number where all of its values are, else text (2.7B is text);
     * all else is text.
     *
     * @throws NoSuchFileException where there is no such file
     * @throws IOException where the file cannot be read or a line's cells do not match the header
     */
    public static Table read(Path csv) throws IOException {
        if (!Files.exists(csv)) throw new NoSuchFileException(csv.toString());
        List<List<String>> lines = new TidyCsv(csv).lines();
        Table table = Table.create(csv.getFileName().toString());
        if (lines.isEmpty()) return table;
        List<String> header = lines.get(0);
        int parameters = header.indexOf("implementation");
        for (int c = 0; c < header.size(); c++) {
            int at = c;
            List<String> cells =
                    lines.stream().skip(1).map(line -> line.get(at)).toList();
            table.addColumns(column(header.get(c), cells, c < parameters));
        }
        return table;
    }

    /** These measurements as a table; see {@link #read(Path)}. */
    public Table table() throws IOException {
        return read(path());
    }

    /**
     * Whether a case is done: each of its metrics has a row, none of them of status {@code error}. Other columns of the
     * file may hold more metrics than the case announces.
     */
    public boolean holds(Case c) throws IOException {
        List<List<String>> lines = rows.lines();
        if (lines.isEmpty()) return false;
        List<String> header = lines.get(0);
        int metric = header.indexOf("metric"), status = header.indexOf("status");
        Set<String> found = new LinkedHashSet<>();
        for (List<String> row : lines.stream().skip(1).filter(of(c, header)).toList()) {
            if (row.get(status).equals(Status.ERROR.toString())) return false;
            found.add(row.get(metric));
        }
        return !found.isEmpty()
                && found.containsAll(c.metrics().stream().map(Metric::name).toList());
    }

    /**
     * Stores a case's rows, in place of those it had. They are on disk when this returns.
     *
     * @throws IllegalArgumentException if the file has other parameter columns than the case
     */
    public void put(Case c, List<Measurement> measured, Provenance provenance) throws IOException {
        var cells = new ArrayList<List<String>>();
        for (Measurement m : measured) {
            Summary s = m.summary();
            List<String> numbers = s == null
                    ? List.of("", "", "", "", "", "")
                    : Stream.concat(
                                    Stream.of(String.valueOf(s.n())),
                                    Stream.of(s.mean(), s.std(), s.median(), s.min(), s.max())
                                            .map(Measurements::number))
                            .toList();
            cells.add(concat(
                    List.of(c.implementation(), m.metric().name(), m.metric().unit()),
                    numbers,
                    List.of(
                            m.status().toString(),
                            provenance.device(),
                            provenance.versions(),
                            provenance.commit(),
                            provenance.date())));
        }
        put(rows, c, COLUMNS, cells);
    }

    /** Stores every single step of a case, in place of those it had. They are on disk when this returns. */
    public void putSteps(Case c, List<Samples> samples) throws IOException {
        var cells = new ArrayList<List<String>>();
        for (Samples s : samples) {
            for (int i = 0; i < s.values().size(); i++) {
                cells.add(List.of(
                        c.implementation(),
                        s.metric().name(),
                        s.metric().unit(),
                        String.valueOf(i + 1),
                        number(s.values().get(i))));
            }
        }
        put(steps, c, STEP_COLUMNS, cells);
    }

    /**
     * Asserts that rows of a case fit under the file's columns.
     *
     * @throws IllegalArgumentException if the file has other parameter columns than the case
     */
    public void requireSameColumns(Case c) throws IOException {
        requireSameColumns(rows, c, COLUMNS);
        requireSameColumns(steps, c, STEP_COLUMNS);
    }

    /** Makes the folder where it is missing, so that one which cannot be had shows before anything is measured. */
    void requireWritable() throws IOException {
        Path folder = Files.createDirectories(path().toAbsolutePath().getParent());
        if (!Files.isWritable(folder)) throw new AccessDeniedException(folder.toString());
    }

    private static void requireSameColumns(TidyCsv file, Case c, List<String> columns) throws IOException {
        List<List<String>> lines = file.lines();
        if (lines.isEmpty()) return;
        List<String> expected = concat(List.copyOf(c.parameters().keySet()), columns);
        if (!lines.get(0).equals(expected)) {
            throw new IllegalArgumentException(
                    "%s has the columns %s, but this case's are %s: store it under another problem name"
                            .formatted(file.path(), lines.get(0), expected));
        }
    }

    private static void put(TidyCsv file, Case c, List<String> columns, List<List<String>> cells) throws IOException {
        requireSameColumns(file, c, columns);
        List<String> header = concat(List.copyOf(c.parameters().keySet()), columns);
        List<List<String>> fresh = cells.stream()
                .map(row -> concat(List.copyOf(c.parameters().values()), row))
                .toList();
        List<List<String>> stored = file.lines().stream().skip(1).toList();
        List<List<String>> others =
                stored.stream().filter(of(c, header).negate()).toList();
        if (others.size() == stored.size()) file.append(header, fresh);
        else file.replace(header, Stream.concat(others.stream(), fresh.stream()).toList());
    }

    /** Tells the rows of one case, under a header that has its parameters. */
    private static Predicate<List<String>> of(Case c, List<String> header) {
        List<String> names = concat(List.copyOf(c.parameters().keySet()), List.of("implementation"));
        List<String> values = concat(List.copyOf(c.parameters().values()), List.of(c.implementation()));
        int[] at = names.stream().mapToInt(header::indexOf).toArray();
        return row -> {
            for (int i = 0; i < at.length; i++) {
                if (at[i] < 0 || !row.get(at[i]).equals(values.get(i))) return false;
            }
            return true;
        };
    }

    /** Whole numbers in full (bytes), others to nine significant digits (nanoseconds of a second). */
    private static String number(double value) {
        if (Double.isNaN(value)) return "";
        boolean whole = value == Math.rint(value) && Math.abs(value) < 1e15;
        BigDecimal decimal = new BigDecimal(value).round(whole ? MathContext.UNLIMITED : new MathContext(9));
        return decimal.signum() == 0 ? "0" : decimal.stripTrailingZeros().toPlainString();
    }

    private static Column<?> column(String name, List<String> cells, boolean parameter) {
        if (name.equals("n") || name.equals("step")) return ints(name, cells);
        if (NUMBERS.contains(name) || name.equals("value")) return doubles(name, cells);
        if (parameter && all(cells, "-?\\d{1,9}")) return ints(name, cells);
        if (parameter && all(cells, "-?\\d{1,18}")) return longs(name, cells);
        if (parameter && all(cells, "-?\\d+(\\.\\d+)?([eE][-+]?\\d+)?")) return doubles(name, cells);
        return StringColumn.create(name, cells);
    }

    private static boolean all(List<String> cells, String regex) {
        return !cells.isEmpty() && cells.stream().allMatch(cell -> cell.matches(regex));
    }

    private static IntColumn ints(String name, List<String> cells) {
        IntColumn column = IntColumn.create(name);
        for (String cell : cells) {
            if (cell.isEmpty()) column.appendMissing();
            else column.append(Integer.parseInt(cell));
        }
        return column;
    }

    private static LongColumn longs(String name, List<String> cells) {
        return LongColumn.create(name, cells.stream().mapToLong(Long::parseLong).toArray());
    }

    private static DoubleColumn doubles(String name, List<String> cells) {
        DoubleColumn column = DoubleColumn.create(name);
        for (String cell : cells) {
            if (cell.isEmpty()) column.appendMissing();
            else column.append(Double.parseDouble(cell));
        }
        return column;
    }

    @SafeVarargs
    @SuppressWarnings("varargs") // the array is only read
    private static List<String> concat(List<String>... lists) {
        return Stream.of(lists).flatMap(List::stream).toList();
    }
}
