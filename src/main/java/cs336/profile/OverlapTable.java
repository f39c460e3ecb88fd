package cs336.profile;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.bench.AlignedText;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import tech.tablesaw.api.Table;

/**
 * {@link Overlap} and {@link Breakdown} of each step and device in a set of traces. In a data-parallel run every rank
 * writes one trace.
 *
 * <pre>{@code
 * OverlapTable.of(Map.of("rank 0", Trace.read(Path.of("rank0.json.gz"))))
 * }</pre>
 */
public final class OverlapTable {
    private final List<OverlapRow> rows;

    /**
     * One device in one step.
     *
     * @param trace name of the trace
     * @param step number of the step; empty if the trace has no steps and the row covers all of it
     * @param activity activity of the device in this step
     */
    public record OverlapRow(String trace, OptionalInt step, Activity activity) {
        /** Returns the overlap of communication and computation. */
        public Overlap overlap() {
            return Overlap.of(activity);
        }

        /** Returns the time of the step, divided into computation, communication, copies and idle time. */
        public Breakdown breakdown() {
            return Breakdown.of(activity);
        }

        private PrintedOverlap printed() {
            Overlap overlap = overlap();
            Breakdown breakdown = breakdown();
            long span = breakdown.span();
            return new PrintedOverlap(
                    trace,
                    step.isPresent() ? (Integer) step.getAsInt() : null,
                    activity.device(),
                    span / NANOS_PER_MS,
                    overlap.communication() / NANOS_PER_MS,
                    overlap.overlapped() / NANOS_PER_MS,
                    overlap.ratio(),
                    100.0 * breakdown.computation() / span,
                    100.0 * breakdown.communication() / span,
                    100.0 * breakdown.copies() / span,
                    100.0 * breakdown.idle() / span);
        }
    }

    private record PrintedOverlap(
            String trace,
            Integer step,
            String device,
            @Header("span (ms)") double span,
            @Header("communication (ms)") double communication,
            @Header("overlapped (ms)") double overlapped,
            @Header("overlap ratio") double ratio,
            @Header("computation (%)") double computationPercent,
            @Header("communication (%)") double communicationPercent,
            @Header("copies (%)") double copiesPercent,
            @Header("idle (%)") double idlePercent) {}

    private OverlapTable(List<OverlapRow> rows) {
        this.rows = List.copyOf(rows);
    }

    /** Returns the table of all steps of these traces, which are given by name, in the order of the map. */
    public static OverlapTable of(Map<String, Trace> traces) {
        var rows = new ArrayList<OverlapRow>();
        traces.forEach((name, trace) -> {
            List<Activity> whole = Activity.of(trace);
            int[] steps = trace.steps();
            if (steps.length == 0) {
                whole.forEach(activity -> rows.add(new OverlapRow(name, OptionalInt.empty(), activity)));
            }
            for (int step : steps) {
                for (Activity activity : Activity.of(trace.step(step))) {
                    if (whole.stream().noneMatch(each -> each.device().equals(activity.device()))) {
                        continue; // a step without GPU work in a trace of a GPU
                    }
                    rows.add(new OverlapRow(name, OptionalInt.of(step), withEarlierWork(activity, whole)));
                }
            }
        });
        return new OverlapTable(rows);
    }

    /** Returns a step's activity with all computation in its time: kernels of the step before may still run. */
    private static Activity withEarlierWork(Activity step, List<Activity> whole) {
        Intervals time = Intervals.of(List.of(new Intervals.TimeInterval(step.start(), step.end())));
        Intervals computation = whole.stream()
                .filter(each -> each.device().equals(step.device()))
                .map(each -> each.computation().and(time))
                .findFirst()
                .orElseThrow();
        return new Activity(step.device(), step.start(), step.end(), computation, step.communication(), step.copies());
    }

    /** Returns the rows ordered by trace, step and device. */
    public List<OverlapRow> rows() {
        return rows;
    }

    /** Returns the rows of the last step of each trace. The last step contains no one-time set-up cost. */
    public OverlapTable lastSteps() {
        Map<String, OptionalInt> last = new LinkedHashMap<>();
        rows.forEach(row -> last.put(row.trace, row.step));
        return new OverlapTable(rows.stream()
                .filter(row -> row.step.equals(last.get(row.trace)))
                .toList());
    }

    /**
     * Returns the columns {@code trace}, {@code step}, {@code device} and {@code span (ms)}; of the overlap
     * {@code communication (ms)}, {@code overlapped (ms)} and {@code overlap ratio}, which is missing without
     * communication; and of the breakdown {@code computation (%)}, {@code communication (%)}, {@code copies (%)} and
     * {@code idle (%)}.
     */
    public Table table() {
        return Tables.of(
                PrintedOverlap.class, rows.stream().map(OverlapRow::printed).toList());
    }

    /** Returns {@link #table} as aligned text. */
    @Override
    public String toString() {
        return AlignedText.of(table());
    }
}
