package cs336.profile;

import cs336.bench.AlignedText;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * {@link Overlap} and {@link Breakdown} of traces, step by step: one trace a rank, as each process of a data-parallel
 * run writes its own.
 *
 * <pre>{@code
 * OverlapTable.of(Map.of("rank 0", Trace.read(Path.of("rank0.json.gz"))))
 * }</pre>
 */
public final class OverlapTable {
    private static final double NANOS_PER_MS = 1e6;

    private final List<OverlapRow> rows;

    /**
     * A device in a step.
     *
     * @param trace what the trace was called
     * @param step its number; empty where the trace has no steps and this is all of it
     * @param activity what the device did
     */
    public record OverlapRow(String trace, OptionalInt step, Activity activity) {
        /** How much of its communication was hidden. */
        public Overlap overlap() {
            return Overlap.of(activity);
        }

        /** Where its time went. */
        public Breakdown breakdown() {
            return Breakdown.of(activity);
        }
    }

    private OverlapTable(List<OverlapRow> rows) {
        this.rows = List.copyOf(rows);
    }

    /** All steps of these traces, which are in the map's order under its names. */
    public static OverlapTable of(Map<String, Trace> traces) {
        var rows = new ArrayList<OverlapRow>();
        traces.forEach((name, trace) -> {
            int[] steps = trace.steps();
            if (steps.length == 0) add(name, OptionalInt.empty(), trace, rows);
            for (int step : steps) add(name, OptionalInt.of(step), trace.step(step), rows);
        });
        return new OverlapTable(rows);
    }

    private static void add(String name, OptionalInt step, Trace trace, List<OverlapRow> rows) {
        for (Activity activity : Activity.of(trace)) rows.add(new OverlapRow(name, step, activity));
    }

    /** Trace by trace, in the order of steps and devices. */
    public List<OverlapRow> rows() {
        return rows;
    }

    /** The rows of the last step of each trace, which pays for nothing that happens once. */
    public OverlapTable lastSteps() {
        Map<String, OptionalInt> last = new LinkedHashMap<>();
        rows.forEach(row -> last.put(row.trace, row.step));
        return new OverlapTable(rows.stream()
                .filter(row -> row.step.equals(last.get(row.trace)))
                .toList());
    }

    /**
     * The columns {@code trace}, {@code step}, {@code device}, {@code span [ms]}; of the overlap {@code communication
     * [ms]}, {@code overlapped [ms]} and {@code overlap ratio}, which is missing where nothing was communicated; and of
     * the breakdown {@code computation [%]}, {@code communication [%]}, {@code copies [%]}, {@code idle [%]}.
     */
    public Table table() {
        Table table = Table.create(
                "overlap", StringColumn.create("trace"), IntColumn.create("step"), StringColumn.create("device"));
        for (String name : List.of("span [ms]", "communication [ms]", "overlapped [ms]", "overlap ratio")) {
            table.addColumns(DoubleColumn.create(name));
        }
        List<String> parts = List.of("computation [%]", "communication [%]", "copies [%]", "idle [%]");
        parts.forEach(part -> table.addColumns(DoubleColumn.create(part)));
        for (OverlapRow row : rows) {
            Overlap overlap = row.overlap();
            Breakdown breakdown = row.breakdown();
            table.stringColumn("trace").append(row.trace);
            if (row.step.isPresent()) table.intColumn("step").append(row.step.getAsInt());
            else table.intColumn("step").appendMissing();
            table.stringColumn("device").append(row.activity.device());
            table.doubleColumn("span [ms]").append(breakdown.span() / NANOS_PER_MS);
            table.doubleColumn("communication [ms]").append(overlap.communication() / NANOS_PER_MS);
            table.doubleColumn("overlapped [ms]").append(overlap.overlapped() / NANOS_PER_MS);
            table.doubleColumn("overlap ratio").append(overlap.ratio());
            List<Long> times =
                    List.of(breakdown.computation(), breakdown.communication(), breakdown.copies(), breakdown.idle());
            for (int i = 0; i < parts.size(); i++) {
                table.doubleColumn(parts.get(i)).append(100.0 * times.get(i) / breakdown.span());
            }
        }
        return table;
    }

    /** The table as aligned text. */
    @Override
    public String toString() {
        return AlignedText.of(table());
    }
}
