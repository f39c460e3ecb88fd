package cs336.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.bench.Precision;
import cs336.torch.Device;
import cs336.torch.Torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class MatmulBitsTest {
    @ParameterizedTest
    @CsvSource({"FP32, 24", "TF32, 24", "BF16, 8", "FP16, 11"})
    void onTheCpuMatmulsHaveTheBitsOfTheirDtypeAndTf32IsFp32(Precision precision, int bits) {
        assertEquals(bits, MatmulBits.of(precision, Device.cpu()));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theSettingOfTf32IsRestored(boolean allowed) {
        boolean before = Torch.allowsTf32();
        try {
            Torch.allowTf32(allowed);
            MatmulBits.of(allowed ? Precision.FP32 : Precision.TF32, Device.cpu());
            assertEquals(allowed, Torch.allowsTf32());
        } finally {
            Torch.allowTf32(before);
        }
    }

    @ParameterizedTest
    @CsvSource({"FP32, 24", "TF32, 11", "BF16, 8", "FP16, 11"})
    @Tag("gpu")
    void onAGpuMatmulsRunInTheirNominalPrecision(Precision precision, int bits) {
        assertEquals(bits, MatmulBits.of(precision, Device.cuda(0)));
    }
}
