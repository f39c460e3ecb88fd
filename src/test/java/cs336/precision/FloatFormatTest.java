package cs336.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.torch.DType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class FloatFormatTest {
    @ParameterizedTest
    @CsvSource({
        "FLOAT64, 53, 0x1.fffffffffffffp1023, 0x1p-1074",
        "FLOAT32, 24, 0x1.fffffep127, 0x1p-149",
        "FLOAT16, 11, 65504, 0x1p-24",
        "BFLOAT16, 8, 0x1.fep127, 0x1p-133"
    })
    void formatsMatchTheStandards(DType dtype, int bits, double largest, double smallest) {
        assertEquals(new FloatFormat(dtype, bits, largest, smallest), FloatFormat.of(dtype));
    }

    @ParameterizedTest
    @CsvSource({"0.3", "1", "1.99", "2", "9.953125", "5000", "1e-6"})
    void spacingIsTheDistanceToTheNextNumber(double near) {
        FloatFormat fp16 = FloatFormat.of(DType.FLOAT16);
        double x = fp16.round(near);
        double next = x + fp16.spacing(x);
        assertEquals(next, fp16.round(next), "the next number is exact in this type");
        assertEquals(next, fp16.round(x + 0.51 * fp16.spacing(x)));
        assertEquals(x, fp16.round(x + 0.49 * fp16.spacing(x)), "there is no number between");
    }

    @Test
    void integersAndNumbersOutOfRangeAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> FloatFormat.of(DType.INT64));
        FloatFormat fp16 = FloatFormat.of(DType.FLOAT16);
        var error = assertThrows(IllegalArgumentException.class, () -> fp16.spacing(70_000));
        assertEquals("x must be within ±65504.0, not 70000.0", error.getMessage());
        assertThrows(IllegalArgumentException.class, () -> fp16.spacing(Double.NaN));
    }
}
