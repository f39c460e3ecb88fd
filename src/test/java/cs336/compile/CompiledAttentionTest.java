package cs336.compile;

import cs336.basics.Attention;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CompiledAttentionTest {
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void bothPassesEqualPlainAttentionOnTheCpu(boolean causal) {
        agree(Device.cpu(), DType.FLOAT64, causal, 1e-13);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    @Tag("gpu")
    void bothPassesEqualPlainAttentionOnAGpu(boolean causal) {
        agree(Device.cuda(0), DType.FLOAT32, causal, 5e-6);
    }

    @Test
    void remainsUsableAfterItsCacheIsFreed() {
        Attention compiled = Attention.named("plain-compiled");
        try (var scope = MemoryScope.open()) {
            Tensor x = torch.randn(2, 16, 8);
            for (boolean causal : new boolean[] {false, true}) {
                Tensor before = compiled.apply(x, x, x, causal);
                compiled.freeCache();
                NormwiseError.assertAtMost(0, before, compiled.apply(x, x, x, causal));
            }
        } finally {
            compiled.freeCache();
        }
    }

    private static void agree(Device device, DType dtype, boolean causal, double bound) {
        Torch.seed(System.nanoTime());
        Torch.allowTf32(false);
        Attention plain = Attention.named("plain");
        Attention compiled = Attention.named("plain-compiled");
        try (var scope = MemoryScope.open()) {
            for (int tokens : new int[] {32, 32, 17}) {
                Tensor[] inputs = new Tensor[3];
                for (int i = 0; i < inputs.length; i++) {
                    inputs[i] = torch.randn(new long[] {2, tokens, 8}, device.options(dtype))
                            .set_requires_grad(true);
                }
                Tensor expected = plain.apply(inputs[0], inputs[1], inputs[2], causal);
                Tensor got = compiled.apply(inputs[0], inputs[1], inputs[2], causal);
                NormwiseError.assertAtMost(bound, expected, got);
                Tensor dO = torch.randn_like(expected);
                Tensor[] expectedGradients = Backward.of(expected).with(dO).gradients(inputs);
                Tensor[] gradients = Backward.of(got).with(dO).gradients(inputs);
                for (int i = 0; i < inputs.length; i++) {
                    NormwiseError.assertAtMost(bound, expectedGradients[i], gradients[i]);
                }
            }
        } finally {
            plain.freeCache();
            compiled.freeCache();
        }
    }
}
