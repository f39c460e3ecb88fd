package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

class GradientStageTest {
    @Test
    void withoutBucketsThereIsOneStage() {
        assertEquals(
                List.of(new GradientStage(9, List.of(0, 2))), GradientStage.of(9, new int[] {7, -1, 3}, List.of()));
    }

    @Test
    void aStageEndsWhereTheLastGradientOfABucketIsComplete() {
        int[] completions = {20, 18, 11, 5};
        assertEquals(
                List.of(new GradientStage(11, List.of(2, 3)), new GradientStage(25, List.of(0, 1))),
                GradientStage.of(25, completions, List.of(List.of(3, 2), List.of(1, 0))));
    }

    @Test
    void gradientsBelongToTheStageThatComputesThemWhateverTheirBucket() {
        int[] completions = {4, 12, 8, 0}; // an input of the program is complete from the start
        assertEquals(
                List.of(
                        new GradientStage(4, List.of(0, 3)),
                        new GradientStage(8, List.of(2)),
                        new GradientStage(12, List.of(1))),
                GradientStage.of(12, completions, List.of(List.of(0), List.of(1), List.of(2, 3))));
    }

    @Test
    void bucketsOfFrozenParametersEndNoStage() {
        assertEquals(
                List.of(new GradientStage(6, List.of(1))),
                GradientStage.of(6, new int[] {-1, 6, -1}, List.of(List.of(0, 2), List.of(1))));
    }
}
