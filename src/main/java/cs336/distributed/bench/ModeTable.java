package cs336.distributed.bench;

import static cs336.units.UnitFactors.MB;

import cs336.bench.AlignedText;
import cs336.bench.Case;
import cs336.bench.Measurements;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** A printed comparison of training modes: a row per metric and a column per mode, with means over ranks or steps. */
final class ModeTable {
    private static final Map<String, String> NAMES = Map.of(
            "init", "memory after construction",
            "before-step", "memory before the optimizer step",
            "after-step", "memory after the optimizer step",
            "peak", "peak memory",
            "gradients", "wait for gradients",
            "update", "optimizer update",
            "parameters", "wait for parameters",
            "parameters-share", "wait for parameters",
            "handed", "passed to collectives",
            "least-sent", "minimum to send");

    private ModeTable() {}

    /** Returns the stored measurements of these cases as a table. */
    static Table of(Path file, List<Case> cases) throws IOException {
        Map<String, Map<String, String>> byMetric = new LinkedHashMap<>();
        for (Row row : new Measurements(file).table()) {
            boolean requested = cases.stream()
                    .anyMatch(c -> c.parameters().entrySet().stream()
                            .allMatch(p -> isSame(row.getObject(p.getKey()), p.getValue())));
            if (requested) {
                boolean bytes = row.getString("unit").equals("bytes");
                String unit = bytes ? "MB" : row.getString("unit");
                String key = row.getString("metric");
                String metric =
                        NAMES.getOrDefault(key, key.replace('-', ' ')) + (unit.isEmpty() ? "" : " (" + unit + ")");
                byMetric.computeIfAbsent(metric, m -> new LinkedHashMap<>())
                        .put(row.getString("mode"), AlignedText.number(row.getDouble("mean") / (bytes ? MB : 1)));
            }
        }
        Table table = Table.create(StringColumn.create("metric", List.copyOf(byMetric.keySet())));
        for (Case c : cases) {
            String mode = RankCase.of(c).mode();
            table.addColumns(StringColumn.create(
                    mode,
                    byMetric.values().stream()
                            .map(values -> values.getOrDefault(mode, ""))
                            .toList()));
        }
        return table;
    }

    /** Compares with a stored cell; a whole number in a column of doubles is stored as a double. */
    private static boolean isSame(Object stored, String requested) {
        return stored instanceof Double number
                ? number == Double.parseDouble(requested)
                : String.valueOf(stored).equals(requested);
    }
}
