package cs336.bench;

import static cs336.units.UnitFactors.GIB;
import static cs336.units.UnitFactors.MIB;

import cs336.units.Separators;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * A text table of stored cases with one row for each case and one column for each metric. A cell contains mean ±
 * standard deviation, or the status if it is not ok. The column {@code implementation} is omitted if it is the same in
 * all cases. Metrics of CUDA events are omitted. Memory is in GiB, or in MiB if all of it is below 0.1 GiB.
 */
public final class ResultTable {
    /** The number of bytes from which on memory is in GiB. */
    private static final double LARGE = 0.1 * GIB;

    /** Metrics that are counts. */
    private static final Set<String> COUNTS = Set.of("messages", "recomputed-blocks", "significant-bits");

    private ResultTable() {}

    /** Returns the table of at least one case as aligned text. Cells of metrics that are not stored are empty. */
    public static String of(Measurements measurements, List<Case> cases) throws IOException {
        Objects.requireNonNull(measurements, "measurements must not be null");
        Map<List<String>, Map<String, String>> rows = new LinkedHashMap<>();
        cases.forEach(c -> rows.put(key(c), new LinkedHashMap<>()));
        List<String> columns = new ArrayList<>(cases.get(0).parameters().keySet());
        columns.add("implementation");
        Set<String> times = new LinkedHashSet<>();
        Set<String> memories = new LinkedHashSet<>();
        Table stored = measurements.table();
        boolean large = stored.stream()
                .anyMatch(
                        row -> isMemory(row) && row.getDouble("mean") >= LARGE && rows.containsKey(key(row, columns)));
        String memoryUnit = large ? "GiB" : "MiB";
        double memory = large ? GIB : MIB;
        for (Row row : stored) {
            List<String> key = key(row, columns);
            if (!rows.containsKey(key) || row.getString("metric").endsWith("-events")) {
                continue;
            }
            boolean bytes = isMemory(row);
            String heading = heading(row.getString("metric"), bytes ? memoryUnit : row.getString("unit"));
            (bytes ? memories : times).add(heading);
            rows.get(key).put(heading, cell(row, bytes ? memory : 1));
        }
        Table table = Table.create();
        boolean several = cases.stream().map(Case::implementation).distinct().count() > 1;
        for (int i = 0; i < columns.size() - (several ? 0 : 1); i++) {
            int at = i;
            table.addColumns(StringColumn.create(
                    columns.get(i).replace("_mb", " (MB)"),
                    rows.keySet().stream()
                            .map(key -> Separators.of(columns.get(at), key.get(at)))
                            .toList()));
        }
        Stream.concat(times.stream(), memories.stream())
                .forEach(heading -> table.addColumns(StringColumn.create(
                        heading,
                        rows.values().stream()
                                .map(row -> row.getOrDefault(heading, ""))
                                .toList())));
        return AlignedText.of(table);
    }

    private static boolean isMemory(Row row) {
        return row.getString("unit").equals("bytes");
    }

    /** Returns the name of a metric in words, with its unit. */
    private static String heading(String metric, String unit) {
        String words = metric.replace("forward-backward", "forward + backward")
                .replace("-share", "")
                .replace('-', ' ');
        return words.endsWith(unit) ? words : words + " (" + unit + ")";
    }

    private static List<String> key(Row row, List<String> columns) {
        return columns.stream().map(c -> Case.text(row.getObject(c))).toList();
    }

    /** Returns the values of the parameters, followed by the implementation. */
    private static List<String> key(Case c) {
        List<String> key = new ArrayList<>(c.parameters().values());
        key.add(c.implementation());
        return key;
    }

    private static String cell(Row row, double unit) {
        if (!row.getString("status").equals(Status.OK.toString())) {
            return row.getString("status");
        }
        double value = row.getDouble("mean");
        if (COUNTS.contains(row.getString("metric")) && value == (int) value) {
            return Separators.of((int) value);
        }
        String mean = AlignedText.number(value / unit);
        return row.isMissing("std") ? mean : mean + " ± " + AlignedText.number(row.getDouble("std") / unit);
    }
}
