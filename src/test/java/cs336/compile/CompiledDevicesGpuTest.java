package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.trace.TensorFunction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Compiled functions that use tensors of the CPU and of a GPU. */
@Tag("gpu")
class CompiledDevicesGpuTest extends ScopedTest {
    private static final Device GPU = Device.cuda(0);

    private static Tensor to(Tensor tensor, Device device) {
        return tensor.to(device.toTorch(), DType.of(tensor).scalarType());
    }

    private static void assertComputes(TensorFunction function, Tensor... inputs) {
        try (var noGrad = NoGrad.open();
                var compiled = Compiled.of(function)) {
            Tensor expected = function.apply(inputs)[0];
            for (int call = 0; call < 2; call++) {
                Tensor got = compiled.apply(inputs)[0];
                assertEquals(Device.of(expected), Device.of(got), "call " + call);
                assertTrue(torch.equal(expected, got), "call " + call);
            }
        }
    }

    @Test
    void aResultIsCopiedToTheCpu() {
        assertComputes(in -> new Tensor[] {to(in[0].neg(), Device.cpu())}, to(torch.randn(5), GPU));
    }

    @Test
    void anInputOfTheCpuIsCopiedToTheGpu() {
        assertComputes(in -> new Tensor[] {in[0].mul(to(in[1].neg(), GPU))}, to(torch.randn(5), GPU), torch.randn(5));
    }

    @Test
    void aNumberOnTheCpuMultipliesATensorOfTheGpu() {
        assertComputes(
                in -> new Tensor[] {in[0].mul(Tensors.of(new double[] {3}).sum())}, to(torch.randn(5), GPU));
    }
}
