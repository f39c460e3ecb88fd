package cs336.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.bench.Precision;
import cs336.torch.Device;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class MatmulBitsTest {
    @ParameterizedTest
    @CsvSource({"FP32, 24", "TF32, 24", "BF16, 8", "FP16, 11"})
    void onTheCpuMatmulsHaveTheBitsOfTheirDtypeAndTf32IsFp32(Precision precision, int bits) {
        assertEquals(bits, MatmulBits.of(precision, Device.cpu()));
    }

    @ParameterizedTest
    @CsvSource({"FP32, 24", "TF32, 11", "BF16, 8", "FP16, 11"})
    @Tag("gpu")
    void onAGpuMatmulsRunInTheirNominalPrecision(Precision precision, int bits) {
        assertEquals(bits, MatmulBits.of(precision, Device.cuda(0)));
    }
}
