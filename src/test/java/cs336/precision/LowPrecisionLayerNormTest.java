package cs336.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.precision.LowPrecisionLayerNorm.Input;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import java.util.EnumSet;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class LowPrecisionLayerNormTest extends ScopedTest {
    @BeforeEach
    void open() {
        Torch.seed(5);
    }

    private static Tensor rows(Input input, DType narrow) {
        return input.draw(16, 512, narrow, Device.cpu());
    }

    private static double error(Input input, DType narrow, LayerNormStep... steps) {
        Set<LayerNormStep> narrowed = EnumSet.noneOf(LayerNormStep.class);
        narrowed.addAll(Set.of(steps));
        return LowPrecisionLayerNorm.of(narrow, narrowed).error(rows(input, narrow));
    }

    @ParameterizedTest
    @EnumSource(Input.class)
    void withoutNarrowStepsItIsAnFp32LayerNorm(Input input) {
        assertTrue(error(input, DType.FLOAT16) < 1e-6);
        assertTrue(error(input, DType.BFLOAT16) < 1e-6);
    }

    @ParameterizedTest
    @EnumSource(LayerNormStep.class)
    void everyNarrowStepIncreasesTheError(LayerNormStep step) {
        double wide = error(Input.ORDINARY, DType.BFLOAT16);
        double narrow = error(Input.ORDINARY, DType.BFLOAT16, step);
        assertTrue(narrow > 20 * wide, step + ": " + narrow);
    }

    @Test
    void stepsThatAreAddedToTheSetLaterStayWide() {
        Set<LayerNormStep> steps = EnumSet.of(LayerNormStep.MEAN);
        LowPrecisionLayerNorm norm = LowPrecisionLayerNorm.of(DType.BFLOAT16, steps);
        Tensor x = rows(Input.OFF_CENTRE, DType.BFLOAT16);
        Tensor y = norm.apply(x);
        steps.addAll(EnumSet.allOf(LayerNormStep.class));
        assertTrue(norm.apply(x).equal(y));
    }

    @Test
    void squaresOverflowInFp16AndNotInBf16() {
        assertEquals(1, error(Input.LARGE, DType.FLOAT16, LayerNormStep.SQUARES), "1 ÷ √∞ = 0: every output is 0");
        assertTrue(error(Input.LARGE, DType.BFLOAT16, LayerNormStep.SQUARES) < 1e-3);
    }

    @Test
    void sumsLoseMoreInBf16ThanInFp16() {
        for (LayerNormStep sum : Set.of(LayerNormStep.MEAN, LayerNormStep.VARIANCE)) {
            double bf16 = error(Input.OFF_CENTRE, DType.BFLOAT16, sum);
            double fp16 = error(Input.OFF_CENTRE, DType.FLOAT16, sum);
            assertTrue(bf16 > 2 * fp16, sum + ": bf16 " + bf16 + ", fp16 " + fp16);
        }
        assertTrue(error(Input.ORDINARY, DType.BFLOAT16, LayerNormStep.VARIANCE) > 0.01);
    }

    @Test
    void pyTorchsLayerNormRoundsOnlyItsOutput() {
        for (Input input : Input.values()) {
            double error = LowPrecisionLayerNorm.nativeError(rows(input, DType.BFLOAT16), DType.BFLOAT16);
            double halfUlp = Math.scalb(1.0, -8);
            assertTrue(error < halfUlp, input + ": " + error);
            assertTrue(error > halfUlp / 8, input + ": " + error);
        }
    }
}
