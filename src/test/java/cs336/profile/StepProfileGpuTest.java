package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.torch.Device;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("gpu")
class StepProfileGpuTest {
    @Test
    void phasesSumToTheStepAndTheTraceAgreesWithWallTime() {
        TransformerConfig config = TransformerConfig.builder()
                .vocabSize(1000)
                .contextLength(512)
                .dModel(1024)
                .numLayers(4)
                .numHeads(16)
                .dFf(4096)
                .build();
        try (var model = new TransformerLM(config, Device.cuda(0))) {
            StepProfile profile = StepProfile.of(model, 4, Precision.FP32, Pass.STEP, 3, 3);
            Map<String, List<Double>> samples = profile.samples().stream()
                    .collect(Collectors.toMap(s -> s.metric().name(), Samples::values));
            for (int i = 0; i < 3; i++) {
                double phases = samples.get("forward-kernels").get(i)
                        + samples.get("backward-kernels").get(i)
                        + samples.get("optimizer-kernels").get(i);
                assertEquals(samples.get("total-kernels").get(i), phases, 1e-9);
                double clock = samples.get("stopwatch-profiled").get(i);
                assertEquals(clock, samples.get("profiled").get(i), 0.05 * clock);
                assertTrue(samples.get("busy").get(i) <= samples.get("profiled").get(i));
                assertTrue(samples.get("forward-attention-softmax").get(i) > 0);
                assertTrue(samples.get("backward-attention-softmax").get(i) > 0);
            }
        }
    }
}
