package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import cs336.basics.Attention;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AttentionPassesTest {
    /** An attention that records its inputs. */
    private record RecordingAttention(Attention attention, List<Tensor> inputs) implements Attention {
        @Override
        public String name() {
            return attention.name();
        }

        @Override
        public Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal) {
            inputs.addAll(List.of(q, k, v));
            return attention.apply(q, k, v, causal);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"plain", "flash", "sdpa"})
    void aGraphServesManyBackwardPassesAndOnlyTheSumStoresGradientsWithoutAccumulation(String name) {
        try (var scope = MemoryScope.open()) {
            var recording = new RecordingAttention(Attention.named(name), new ArrayList<>());
            var passes = new AttentionPasses(recording, true, Device.cpu(), DType.FLOAT32, 1, 2, 5, 4);
            Tensor output = passes.forward();
            passes.backward(output);
            passes.backward(output);
            passes.forwardBackward();
            Tensor v = recording.inputs.get(2);
            assertFalse(v.grad().defined());
            passes.forwardSumBackward();
            passes.forwardSumBackward();
            // Each query's probabilities sum to 1, so the gradients of v sum to B · H · T · d.
            assertEquals(2 * 5 * 4, v.grad().sum().item_double(), 1e-4);
            assertEquals(0, torch.isnan(recording.inputs.get(0).grad()).sum().item_double());
        }
    }
}
