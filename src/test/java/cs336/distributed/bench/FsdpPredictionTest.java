package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Project;
import cs336.numbers.MeasurementQuery;
import cs336.scaling.FsdpPrediction;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import tech.tablesaw.api.Row;

class FsdpPredictionTest extends CommandTest {
    private static final Path STORED = Project.path("data/measurements");
    private static final String LARGE = "d4096-ff11008-l34-h32-v151936";

    private static List<FsdpPrediction> predictions(String size) {
        List<FsdpPrediction> all = FsdpPrediction.of(MeasurementQuery.of(STORED.resolve("h200-x2"))).stream()
                .filter(p -> p.size().equals(size))
                .toList();
        assertFalse(all.isEmpty(), "no step of " + size);
        return all;
    }

    @Test
    void stepsOfTheLargestModelAreGpuBoundAndPredicted() {
        for (FsdpPrediction p : predictions(LARGE)) {
            assertFalse(p.isLaunchBound(), p.toString());
            assertEquals(p.measuredStep(), p.step(), 0.05 * p.measuredStep(), p.toString());
            if (p.measuredExposed() != null) {
                assertEquals(p.measuredExposed(), p.exposed(), 0.5 * p.measuredExposed(), p.toString());
                assertTrue(p.exposed() < 0.01 * p.step(), p.toString());
            }
        }
        assertTrue(predictions(LARGE).stream().anyMatch(p -> p.measuredExposed() != null), "no trace");
    }

    @Test
    void longStepsOfSmallerModelsAreGpuBoundAndPredicted() {
        for (String size : List.of("xl", "2.7B")) {
            List<FsdpPrediction> all = predictions(size).stream()
                    .filter(p -> p.batch() * p.context() > 512)
                    .toList();
            assertFalse(all.isEmpty(), "no long step of " + size);
            for (FsdpPrediction p : all) {
                assertFalse(p.isLaunchBound(), p.toString());
                assertEquals(p.measuredStep(), p.step(), 0.05 * p.measuredStep(), p.toString());
            }
        }
    }

    @Test
    void shortStepsAreRecognisedAsLaunchBound() {
        for (String size : List.of("xl", "2.7B")) {
            for (FsdpPrediction p : predictions(size)) {
                if (p.batch() * p.context() > 512) {
                    continue;
                }
                assertTrue(p.isLaunchBound(), p.toString());
                assertTrue(p.gpu() < p.measuredStep() / 3, p.toString());
                assertTrue(p.step() < p.measuredStep(), "the host time of collectives is not included: " + p);
                assertTrue(p.step() > p.measuredStep() / 2, p.toString());
            }
        }
    }

    @Test
    void bytesAndPeakMemoryArePredicted() {
        for (FsdpPrediction p : FsdpPrediction.of(MeasurementQuery.of(STORED.resolve("h200-x2")))) {
            // the small rest: norms, and on NVLinks the headers of messages
            assertEquals(p.measuredSent(), p.sent(), 1e-3 * p.measuredSent(), p.toString());
            assertEquals(p.measuredPeak(), p.peak(), 0.05 * p.measuredPeak(), p.toString());
        }
    }

    /** The writeup reads the stored predictions, so they must follow from the stored measurements. */
    @Test
    void storedPredictionsFollowFromStoredMeasurements() throws IOException {
        for (String machine : List.of("h200", "h200-x2", "on-paper")) {
            Files.createDirectories(folder.resolve(machine));
        }
        for (String file : List.of(
                "h200/torch_compile.csv",
                "h200/flash_leaderboard.csv",
                "h200/flash_benchmarking.csv",
                "h200/torch_compile_rmsnorm.csv",
                "h200-x2/fsdp_accounting.csv",
                "h200-x2/fsdp_accounting_overlap.csv",
                "on-paper/scaling_fit.csv")) {
            Files.copy(STORED.resolve(file), folder.resolve(file));
        }
        assertEquals(0, run(new FsdpCommand(), "--predict h200-x2"), err.toString());
        var fresh = MeasurementQuery.of(folder.resolve("on-paper"));
        var stored = MeasurementQuery.of(STORED.resolve("on-paper"));
        for (Row row : stored.table("fsdp_predictions")) {
            String reference = "fsdp_predictions[size=%s, batch=%s, context=%s, checkpointing=%s, metric=%s].median"
                    .formatted(
                            row.getString("size"),
                            row.getObject("batch"),
                            row.getObject("context"),
                            row.getString("checkpointing"),
                            row.getString("metric"));
            double value = row.getDouble("median");
            assertEquals(
                    value,
                    fresh.quantity(reference).value(),
                    1e-6 * Math.abs(value),
                    () -> reference + " is older than the measurements; store it with cs336 fsdp --predict h200-x2");
        }
    }

    @Test
    void optionsOfTrainingHaveNoEffectWithPredictions() {
        assertEquals(2, run(new FsdpCommand(), "--predict h200-x2 --mode fsdp"));
        assertTrue(err.toString().contains("--mode has no effect with --predict"), err.toString());
    }
}
