package cs336.planner;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.charts.Plot;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import cs336.planner.StoredCases.StoredCase;
import cs336.units.Bytes;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import tech.tablesaw.api.Table;

/** The results of a {@link StepPlan} as a figure and a table, next to stored measurements. */
public final class PlanReport {
    private PlanReport() {}

    private record StackedBar(
            String bar,
            String category,
            @Header("memory (GiB)") double gib) {}

    /**
     * Returns the predicted peak by category as a stacked bar. Lines show the memory of the machine's GPU that tensors
     * may use, and the measured peak if it is stored.
     *
     * @throws IOException if a file of measurements cannot be read
     */
    public static Figure memory(StepPlan plan, PlanMachine machine) throws IOException {
        List<StackedBar> bars = new ArrayList<>();
        PlanMemory memory = PlanMemory.of(plan);
        memory.categories().forEach((purpose, bytes) -> {
            if (!bytes.equals(Bytes.NONE)) {
                bars.add(new StackedBar("predicted", purpose.toString(), bytes.gib()));
            }
        });
        String name = machine.accelerator().name();
        Plot plot = Charts.bar(Tables.of(StackedBar.class, bars))
                .x("bar", "")
                .y("memory (GiB)", "peak memory (GiB)")
                .by("category")
                .stacked()
                .level(machine.usable().gib(), "memory of an " + name);
        for (StoredCase stored : StoredCases.of(plan)) {
            if (stored.peakBytes() != null) {
                plot.level(new Bytes(stored.peakBytes()).gib(), "measured peak");
                break;
            }
        }
        return plot.figure(
                "planned-memory",
                "Predicted peak memory of a " + plan.title() + ": " + memory.total() + "; an " + name + " has "
                        + machine.usable());
    }

    private record SummaryRow(
            String quantity,
            @Header("predicted") Double predicted,
            @Header("measured") Double measured,
            String source) {}

    /**
     * Returns the predicted peak memory, the parts of the predicted time and the time of the step, next to measured
     * values if they are stored. Times are missing for TF32, of which no profile is stored, and for a forward pass with
     * sharded parameters, which {@link PlanTime} does not predict.
     *
     * @throws IOException if a file of measurements cannot be read
     */
    public static Table summary(StepPlan plan, PlanMachine machine) throws IOException {
        List<SummaryRow> rows = new ArrayList<>();
        List<StoredCase> stored = StoredCases.of(plan);
        PlanMemory memory = PlanMemory.of(plan);
        StoredCase peak = stored.stream()
                .filter(each -> each.peakBytes() != null || each.outOfMemory())
                .findFirst()
                .orElse(null);
        Double measuredGib = peak == null || peak.peakBytes() == null ? null : new Bytes(peak.peakBytes()).gib();
        rows.add(new SummaryRow(
                "peak memory (GiB)" + (memory.fits(machine) ? "" : ": out of memory"),
                memory.total().gib(),
                measuredGib,
                peak == null ? "" : peak.file() + (peak.outOfMemory() ? ": out of memory" : "")));
        if (PlanTime.unpredictable(plan).isPresent()) {
            return Tables.of(SummaryRow.class, rows).setName(plan.title());
        }
        PlanTime time = PlanTime.of(plan, machine);
        time.parts().forEach((part, seconds) -> rows.add(new SummaryRow(part + " (ms)", seconds.ms(), null, "")));
        StoredCase timed = stored.stream()
                .filter(each -> each.stepMs() != null)
                .findFirst()
                .orElse(null);
        rows.add(new SummaryRow(
                plan.pass() + " (ms)",
                time.total().ms(),
                timed == null ? null : timed.stepMs(),
                timed == null ? "" : timed.file()));
        return Tables.of(SummaryRow.class, rows).setName(plan.title());
    }
}
