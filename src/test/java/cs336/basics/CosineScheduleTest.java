package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.MemoryScope;
import cs336.torch.TensorJson;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class CosineScheduleTest {
    @Test
    void everyValueMatchesTheReference() {
        TensorJson reference = Reference.read("parts.json").get("cosine");
        var schedule = new CosineSchedule(
                reference.get("max_lr").number(),
                reference.get("min_lr").number(),
                reference.get("warmup").integer(),
                reference.get("end").integer());
        try (var scope = MemoryScope.open()) {
            Tensor values = reference.get("values").tensor();
            assertTrue(values.size(0) > schedule.endStep() + 1);
            for (int t = 0; t < values.size(0); t++) {
                assertEquals(values.select(0, t).item_double(), schedule.at(t), 1e-18, "step " + t);
            }
        }
    }

    @Test
    void withoutWarmupItStartsAtTheMaximum() {
        assertEquals(0.5, new CosineSchedule(0.5, 0.1, 0, 10).at(0));
        assertEquals(0.3, new CosineSchedule(0.5, 0.1, 0, 10).at(5), 1e-15);
    }

    @Test
    void settingsOutOfRangeAreNamed() {
        assertNames("maxLearningRate", () -> new CosineSchedule(-1, 0, 1, 2));
        assertNames("minLearningRate", () -> new CosineSchedule(1, 2, 1, 2));
        assertNames("minLearningRate", () -> new CosineSchedule(1, Double.NaN, 1, 2));
        assertNames("warmupSteps", () -> new CosineSchedule(1, 0, -1, 2));
        assertNames("endStep", () -> new CosineSchedule(1, 0, 2, 2));
        assertNames("step", () -> new CosineSchedule(1, 0, 1, 2).at(-1));
    }

    private static void assertNames(String argument, org.junit.jupiter.api.function.Executable call) {
        var error = assertThrows(IllegalArgumentException.class, call);
        assertTrue(error.getMessage().startsWith(argument), error.getMessage());
    }
}
