package cs336.planner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.charts.Figure;
import cs336.distributed.bench.FsdpMode;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.knowm.xchart.CategoryChart;
import org.knowm.xchart.CategorySeries;
import tech.tablesaw.api.Table;

class PlanReportTest {
    private static final StepPlan XL =
            StepPlan.of(ModelSize.XL.config(ModelEdition.SPRING_2025, 512)).withBatch(4);

    @Test
    void theFigureStacksTheCategories() throws IOException {
        Figure alone = PlanReport.memory(XL, PlanMachine.H200);
        assertEquals(
                List.of("parameters", "optimizer state", "activations", "logits and loss", "workspaces"),
                series(alone));
        assertTrue(alone.description().contains("an H200 has 149.0 GB (138.8 GiB)"), alone.description());
        assertTrue(series(PlanReport.memory(XL.withGpus(2, FsdpMode.FSDP), PlanMachine.H200))
                .contains("communication buffers"));
    }

    @Test
    void linesShowTheMemoryOfTheGpuAndTheMeasuredPeak() throws IOException {
        assertEquals(2, dashedLines(PlanReport.memory(XL, PlanMachine.H200)));
        assertEquals(1, dashedLines(PlanReport.memory(XL.withBatch(3), PlanMachine.H200))); // not measured
    }

    private static int dashedLines(Figure figure) {
        return figure.svg().split("stroke-dasharray", -1).length - 1;
    }

    private static List<String> series(Figure figure) {
        return ((CategoryChart) figure.chart())
                .getSeriesCollection().stream().map(CategorySeries::getName).toList();
    }

    @Test
    void theSummaryHasMeasuredValuesWhereTheyAreStored() throws IOException {
        Table summary = PlanReport.summary(XL, PlanMachine.H200);
        int last = summary.rowCount() - 1;
        assertEquals("step (ms)", summary.getString(last, "quantity"));
        assertEquals("benchmarking_script", summary.getString(last, "source"));
        assertFalse(summary.doubleColumn("measured").isMissing(0));
        Table other = PlanReport.summary(XL.withBatch(3), PlanMachine.H200);
        assertEquals(other.rowCount(), other.doubleColumn("measured").countMissing());
        Table large = PlanReport.summary(XL.withBatch(64), PlanMachine.H200);
        assertEquals("peak memory (GiB): out of memory", large.getString(0, "quantity"));
        StepPlan longer =
                StepPlan.of(ModelSize.XL.config(ModelEdition.SPRING_2025, 2048)).withBatch(4);
        assertEquals(
                "gradient_checkpointing: out of memory",
                PlanReport.summary(longer, PlanMachine.H200).getString(0, "source"));
    }
}
