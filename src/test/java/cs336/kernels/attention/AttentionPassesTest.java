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
    /** Hands on what an attention gets. */
    private record Seen(Attention attention, List<Tensor> inputs) implements Attention {
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
    void aGraphServesManyBackwardPassesAndOnlyTheSumLeavesGradientsWhichDoNotAddUp(String name) {
        try (var scope = MemoryScope.open()) {
            var seen = new Seen(Attention.named(name), new ArrayList<>());
            var passes = new AttentionPasses(seen, true, Device.cpu(), DType.FLOAT32, 1, 2, 5, 4);
            Tensor output = passes.forward();
            passes.backward(output);
            passes.backward(output);
            passes.forwardBackward();
            Tensor v = seen.inputs.get(2);
            assertFalse(v.grad().defined());
            passes.forwardSumBackward();
            passes.forwardSumBackward();
            // Columns of probabilities, of all queries, sum to T · d in all.
            assertEquals(2 * 5 * 4, v.grad().sum().item_double(), 1e-4);
            assertEquals(0, torch.isnan(seen.inputs.get(0).grad()).sum().item_double());
        }
    }
}
