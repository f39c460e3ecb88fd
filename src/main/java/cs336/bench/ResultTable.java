package cs336.bench;

import static cs336.units.UnitFactors.GIB;

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
 * all cases. Metrics of CUDA events are omitted.
 */
public final class ResultTable {
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
        for (Row row : measurements.table()) {
            List<String> key =
                    columns.stream().map(c -> Case.text(row.getObject(c))).toList();
            if (!rows.containsKey(key)) {
                continue;
            }
            String metric = row.getString("metric");
            if (metric.endsWith("-events")) {
                continue;
            }
            boolean bytes = row.getString("unit").equals("bytes");
            String unit = bytes ? "GiB" : row.getString("unit");
            String words =
                    metric.replace("forward-backward", "forward + backward").replace('-', ' ');
            String heading = unit.isEmpty() ? words : words + " (" + unit + ")";
            (bytes ? memories : times).add(heading);
            rows.get(key).put(heading, cell(row, bytes ? GIB : 1));
        }
        Table table = Table.create();
        boolean several = cases.stream().map(Case::implementation).distinct().count() > 1;
        for (int i = 0; i < columns.size() - (several ? 0 : 1); i++) {
            int at = i;
            table.addColumns(StringColumn.create(
                    columns.get(i),
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
        String mean = AlignedText.number(row.getDouble("mean") / unit);
        return row.isMissing("std") ? mean : mean + " ± " + AlignedText.number(row.getDouble("std") / unit);
    }
}
