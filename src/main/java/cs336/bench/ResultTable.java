package cs336.bench;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** Stored cases for the eye: a row a case, a column a metric with mean ± std, or how it ended. */
final class ResultTable {
    private static final double GIB = 1L << 30;

    private ResultTable() {}

    static String of(Measurements measurements, List<Case> cases) throws IOException {
        Map<List<String>, Map<String, String>> rows = new LinkedHashMap<>();
        cases.forEach(c -> rows.put(List.copyOf(c.parameters().values()), new LinkedHashMap<>()));
        List<String> parameters = List.copyOf(cases.get(0).parameters().keySet());
        Set<String> times = new LinkedHashSet<>();
        Set<String> memories = new LinkedHashSet<>();
        String implementation = cases.get(0).implementation();
        for (Row row : measurements.table()) {
            List<String> key = parameters.stream()
                    .map(p -> String.valueOf(row.getObject(p)))
                    .toList();
            if (!rows.containsKey(key) || !row.getString("implementation").equals(implementation)) continue;
            String metric = row.getString("metric");
            if (metric.endsWith("-events")) continue;
            boolean bytes = row.getString("unit").equals("bytes");
            String heading = metric + " [" + (bytes ? "GiB" : row.getString("unit")) + "]";
            (bytes ? memories : times).add(heading);
            rows.get(key).put(heading, cell(row, bytes ? GIB : 1));
        }
        Table table = Table.create();
        for (int i = 0; i < parameters.size(); i++) {
            int at = i;
            table.addColumns(StringColumn.create(
                    parameters.get(i),
                    rows.keySet().stream().map(key -> key.get(at)).toList()));
        }
        Stream.concat(times.stream(), memories.stream())
                .forEach(heading -> table.addColumns(StringColumn.create(
                        heading,
                        rows.values().stream()
                                .map(row -> row.getOrDefault(heading, ""))
                                .toList())));
        return AlignedText.of(table);
    }

    private static String cell(Row row, double unit) {
        if (!row.getString("status").equals(Status.OK.toString())) return row.getString("status");
        String mean = AlignedText.number(row.getDouble("mean") / unit);
        return row.isMissing("std") ? mean : mean + " ± " + AlignedText.number(row.getDouble("std") / unit);
    }
}
