package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.bytedeco.pytorch.Context;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TorchTest {
    @ParameterizedTest
    @CsvSource({"false, true, true", "false, true, false", "true, false, false"})
    void aTf32ScopeRestoresTheSettingsOfCublasAndCudnn(boolean cublas, boolean cudnn, boolean allow) {
        Torch.load();
        Context context = torch.globalContext();
        try (var before = Torch.tf32(false)) {
            context.setAllowTF32CuBLAS(cublas);
            context.setAllowTF32CuDNN(cudnn);
            try (var tf32 = Torch.tf32(allow)) {
                assertEquals(allow, context.allowTF32CuBLAS());
                assertEquals(allow, context.allowTF32CuDNN());
            }
            assertEquals(cublas, context.allowTF32CuBLAS());
            assertEquals(cudnn, context.allowTF32CuDNN());
        }
    }
}
