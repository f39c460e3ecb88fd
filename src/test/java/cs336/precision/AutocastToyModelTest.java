package cs336.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.torch.DType;
import cs336.torch.Device;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class AutocastToyModelTest {
    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"FLOAT16", "BFLOAT16"})
    void onTheCpuAutocastNarrowsMatmulsAndKeepsParametersLossAndGradientsInFp32(DType narrow) {
        Map<String, DType> dtypes = AutocastToyModel.dtypes(Device.cpu(), narrow);
        for (String wide : Set.of("parameters", "loss", "gradients")) {
            assertEquals(DType.FLOAT32, dtypes.get(wide), wide);
        }
        for (String tensor : Set.of("fc1", "relu", "logits", "fc1-gradient")) {
            assertEquals(narrow, dtypes.get(tensor), tensor);
        }
        assertEquals(narrow, dtypes.get("ln"), "layer_norm is not on the CPU's fp32 list");
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"FLOAT16", "BFLOAT16"})
    @Tag("gpu")
    void onAGpuTheNormalizationIsFp32(DType narrow) {
        assertEquals(
                Map.ofEntries(
                        Map.entry("parameters", DType.FLOAT32),
                        Map.entry("fc1", narrow),
                        Map.entry("relu", narrow),
                        Map.entry("ln", DType.FLOAT32),
                        Map.entry("logits", narrow),
                        Map.entry("loss", DType.FLOAT32),
                        Map.entry("gradients", DType.FLOAT32),
                        Map.entry("fc1-gradient", narrow)),
                AutocastToyModel.dtypes(Device.cuda(0), narrow));
    }

    @Test
    void withoutAutocastEverythingIsFp32() {
        assertEquals(
                Set.of(DType.FLOAT32),
                Set.copyOf(AutocastToyModel.dtypes(Device.cpu(), DType.FLOAT32).values()));
    }
}
