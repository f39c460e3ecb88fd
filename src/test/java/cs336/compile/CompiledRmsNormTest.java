package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Normalization;
import cs336.basics.RmsNorm;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Torch;
import java.util.List;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class CompiledRmsNormTest {
    @Test
    void bothPassesEqualThePlainLayerOnTheCpu() {
        agree(Device.cpu(), DType.FLOAT64, 1e-14);
    }

    @Test
    @Tag("gpu")
    void bothPassesEqualThePlainLayerOnAGpu() {
        agree(Device.cuda(0), DType.FLOAT32, 2e-6);
        agree(Device.cuda(0), DType.BFLOAT16, 8e-3);
    }

    private static void agree(Device device, DType dtype, double bound) {
        Torch.seed(System.nanoTime());
        try (var scope = MemoryScope.open();
                var plain = new RmsNorm(48, device, dtype);
                var compiled = Normalization.named("rmsnorm-compiled").create(48, device, dtype)) {
            assertEquals(
                    List.of("weight"), List.copyOf(compiled.namedParameters().keySet()));
            try (var noGrad = NoGrad.open()) {
                compiled.parameters().get(0).normal_();
            }
            plain.load(compiled.namedParameters());
            for (int i = 0; i < 3; i++) {
                Tensor values = torch.randn(new long[] {5, 48}, device.options(dtype));
                Tensor dy = torch.randn_like(values);
                Tensor x = values.clone().set_requires_grad(true);
                Tensor z = values.clone().set_requires_grad(true);
                Tensor expected = plain.forward(x);
                Tensor got = compiled.forward(z);
                NormwiseError.assertAtMost(bound, expected, got);
                Tensor[] expectedGradients = Backward.of(expected)
                        .with(dy)
                        .gradients(x, plain.parameters().get(0));
                Tensor[] gradients = Backward.of(got)
                        .with(dy)
                        .gradients(z, compiled.parameters().get(0));
                NormwiseError.assertAtMost(bound, expectedGradients[0], gradients[0]);
                NormwiseError.assertAtMost(bound, expectedGradients[1], gradients[1]);
            }
        }
    }

    @Test
    void passesLeaveNoNativeObjectsToTheGarbageCollector() {
        try (var all = MemoryScope.open();
                var layer = new CompiledRmsNorm(8, Normalization.EPS, Device.cpu(), DType.FLOAT32)) {
            Tensor x = torch.randn(4, 8).set_requires_grad(true);
            long before = 0;
            for (int i = 0; i < 40; i++) {
                if (i == 10) {
                    before = Pointer.totalCount();
                }
                try (var scope = MemoryScope.open()) {
                    layer.forward(x).sum().backward();
                    x.mutable_grad().reset();
                    layer.zeroGrad();
                    try (var noGrad = NoGrad.open()) {
                        layer.forward(x);
                    }
                }
            }
            long more = Pointer.totalCount() - before;
            assertTrue(more <= 5, more + " more after 30 passes"); // other threads create objects too
        }
    }

    @Test
    void aClosedLayerIsRefused() {
        try (var scope = MemoryScope.open()) {
            var layer = new CompiledRmsNorm(4, Normalization.EPS, Device.cpu(), DType.FLOAT32);
            layer.forward(torch.randn(2, 4));
            layer.close();
            assertThrows(IllegalStateException.class, () -> layer.forward(torch.randn(2, 4)));
        }
    }
}
