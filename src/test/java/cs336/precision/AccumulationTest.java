package cs336.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.torch.DType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class AccumulationTest {
    /** The same additions in Java, rounded with {@link FloatFormat}. */
    private static double reference(FloatFormat sumType, double term, int times) {
        double sum = 0;
        for (int i = 0; i < times; i++) {
            sum = sumType.round(sum + term);
        }
        return sum;
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"FLOAT16", "BFLOAT16"})
    void eachVariantRoundsToItsDtypes(DType narrow) {
        FloatFormat fp32 = FloatFormat.of(DType.FLOAT32);
        FloatFormat format = FloatFormat.of(narrow);
        double term = format.round(0.01);
        int times = 300;
        assertEquals(reference(fp32, fp32.round(0.01), times), Accumulation.WIDE.run(narrow, 0.01, times));
        assertEquals(reference(format, term, times), Accumulation.NARROW.run(narrow, 0.01, times));
        double wideSum = reference(fp32, term, times);
        assertEquals(wideSum, Accumulation.PROMOTED.run(narrow, 0.01, times));
        assertEquals(wideSum, Accumulation.CONVERTED.run(narrow, 0.01, times));
    }

    @Test
    void aNarrowSumStopsGrowingWhenTheTermIsBelowHalfItsSpacing() {
        FloatFormat bf16 = FloatFormat.of(DType.BFLOAT16);
        double stopped = Accumulation.NARROW.run(DType.BFLOAT16, 0.01, 1_000);
        assertEquals(stopped, Accumulation.NARROW.run(DType.BFLOAT16, 0.01, 900));
        assertEquals(stopped, bf16.round(stopped + bf16.round(0.01)));
    }
}
