package cs336.kernels.runtime;

import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Metric;
import cs336.bench.Provenance;
import cs336.bench.Status;
import cs336.bench.Summary;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import tech.tablesaw.api.Table;

/**
 * The result of a {@link KernelCell}: launches with their registers, outputs compared with fp64, and time. The result
 * is measured on this machine or read from a stored execution; only the beginning of its text differs.
 *
 * @param inputs dtype and shapes of the inputs, as in {@code fp32 [8000×1000] [1000]}
 * @param launches the kernels as {@code name<<<grid, block, bytes of dynamic shared memory>>>}, separated by semicolons
 * @param origin the beginning of the text: device, commit and date, or the reason why there is no result
 * @param rows the values as they are stored; empty if there is no result
 */
public record KernelRun(String inputs, String launches, String origin, List<Measurement> rows) {
    static final String NOT_RUN_HERE = "The kernels of this cell did not run here; changes to them do not show.";
    static final String TIME = "time";
    static final String RATE = "rate";
    static final String DIFFERENCE = " difference";
    static final String LARGEST = " largest";
    static final String VALUE = " value ";
    static final String REGISTERS = " registers";
    static final String SHARED = " shared-memory";
    static final String SPILLS = " spills";

    public KernelRun {
        Objects.requireNonNull(rows, "rows must not be null");
        rows = List.copyOf(rows);
    }

    /** Returns the first line of a result that says where it was measured. */
    static String origin(String how, Provenance provenance) {
        return origin(how, provenance.device(), provenance.commit(), provenance.date());
    }

    private static String origin(String how, String device, String commit, String date) {
        return how + ": " + device + ", commit " + commit + ", " + date.replaceFirst("T.*", "");
    }

    /**
     * Returns the latest stored execution of a cell with these inputs, or a result that says in one line why there is
     * none.
     *
     * @param csv file of the stored executions, which may be missing
     */
    static KernelRun stored(Path csv, String cell, String inputs) throws IOException {
        Table table = Files.exists(csv) ? Measurements.read(csv) : Table.create();
        List<Integer> ofCell = IntStream.range(0, table.rowCount())
                .filter(row -> text(table, row, "cell").equals(cell)
                        && text(table, row, "status").equals(Status.OK.toString()))
                .boxed()
                .toList();
        List<Integer> found = ofCell.stream()
                .filter(row -> text(table, row, "inputs").equals(inputs))
                .toList();
        if (found.isEmpty()) {
            String others = ofCell.stream()
                    .map(row -> text(table, row, "inputs"))
                    .distinct()
                    .collect(Collectors.joining(" and "));
            String reason = others.isEmpty()
                    ? "No execution of \"" + cell
                            + "\" is stored yet. This cell runs its kernels on a machine with a GPU."
                    : "\"" + cell + "\" is stored for " + others + " only; other inputs run on a machine with a GPU.";
            return new KernelRun(inputs, "", reason, List.of());
        }
        int last = found.get(found.size() - 1);
        String launches = text(table, last, "launches");
        String origin =
                origin("stored", text(table, last, "device"), text(table, last, "commit"), text(table, last, "date"))
                        + "\n" + NOT_RUN_HERE;
        return new KernelRun(
                inputs,
                launches,
                origin,
                found.stream()
                        .filter(row -> text(table, row, "launches").equals(launches))
                        .map(row -> measurement(table, row))
                        .toList());
    }

    private static String text(Table table, int row, String column) {
        return table.column(column).getUnformattedString(row);
    }

    private static Measurement measurement(Table table, int row) {
        var metric = new Metric(text(table, row, "metric"), text(table, row, "unit"));
        double[] statistics = List.of("mean", "std", "median", "min", "max").stream()
                .mapToDouble(column -> table.doubleColumn(column).getDouble(row))
                .toArray();
        return new Measurement(
                metric,
                new Summary(
                        table.intColumn("n").getInt(row),
                        statistics[0],
                        statistics[1],
                        statistics[2],
                        statistics[3],
                        statistics[4]),
                Status.OK);
    }

    /** Returns several lines for a notebook: origin, kernels, inputs, outputs and time. */
    @Override
    public String toString() {
        if (rows.isEmpty()) {
            return origin;
        }
        List<String> lines = new ArrayList<>();
        lines.add(origin);
        for (String launch : launches.isEmpty() ? new String[0] : launches.split("; ")) {
            String name = launch.substring(0, launch.indexOf("<<<"));
            lines.add(launch);
            lines.add("    "
                    + String.format(
                            Locale.ROOT,
                            "%,.0f registers a thread, %,.0f bytes spilled, %,.0f bytes of shared memory a block",
                            value(name + REGISTERS),
                            value(name + SPILLS),
                            value(name + SHARED)));
        }
        lines.add("inputs: " + inputs + ", random");
        for (Measurement row : rows) {
            if (row.metric().name().endsWith(DIFFERENCE)) {
                lines.add(output(row.metric().name().replace(DIFFERENCE, "")));
            }
        }
        Summary time = row(TIME).summary();
        Measurement rate = row(RATE);
        lines.add(String.format(
                Locale.ROOT,
                "time: median %,.4g ms of %,d runs (%,.4g to %,.4g ms), %,.4g %s",
                time.median(),
                time.n(),
                time.min(),
                time.max(),
                rate.summary().median(),
                rate.metric().unit()));
        return String.join("\n", lines);
    }

    private String output(String name) {
        String values = rows.stream()
                .filter(row -> row.metric().name().startsWith(name + VALUE))
                .map(row -> String.format(Locale.ROOT, "%.4g", row.summary().mean()))
                .collect(Collectors.joining(", "));
        return String.format(
                Locale.ROOT,
                "%s: largest difference from fp64 %.2g, largest value %.4g, first values %s",
                name,
                value(name + DIFFERENCE),
                value(name + LARGEST),
                values);
    }

    private double value(String metric) {
        return row(metric).summary().mean();
    }

    private Measurement row(String metric) {
        return rows.stream()
                .filter(row -> row.metric().name().equals(metric))
                .findFirst()
                .orElseThrow(() -> new IllegalStateException("the stored execution has no metric '" + metric + "'"));
    }
}
