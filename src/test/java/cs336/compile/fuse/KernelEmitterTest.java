package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Device;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.junit.jupiter.api.Test;

/** Properties of generated sources that do not change results on a CPU: alignment, and the number of loads. */
class KernelEmitterTest extends ScopedTest {
    private static String source(TensorFunction function, Tensor... inputs) {
        try (var noGrad = NoGrad.open()) {
            Program fused = FusionPasses.fuse(Recorder.record(function, inputs), Device.cpu());
            return FusionPasses.kernels(fused).get(0).source();
        }
    }

    private static void assertContains(String part, String source) {
        assertTrue(source.contains(part), "no " + part + " in\n" + source);
    }

    /** A GPU reports an error for an access of 16 bytes whose address is no multiple of 16. */
    @Test
    void rowsThatStartBetweenAlignedAddressesAreLoadedByElement() {
        TensorFunction exp = in -> new Tensor[] {in[0].exp()};
        assertContains("::load(in0", source(exp, torch.randn(4, 12).narrow(1, 0, 8)));
        String source = source(exp, torch.randn(4, 9).narrow(1, 0, 8));
        assertContains("loadElement(in0", source);
        assertFalse(source.contains("::load(in0"), source);
    }

    @Test
    void contiguousTensorsOfAnyShapeHaveTheIndexOfTheirElements() {
        assertContains("::load(in0 + column)", source(in -> new Tensor[] {in[0].exp()}, torch.randn(2, 3, 4, 8)));
    }

    /** The offset of the input counts complex numbers, that of the load counts reals. */
    @Test
    void complexInputsAreReadFromTheirFirstElement() {
        Tensor numbers = torch.view_as_complex(torch.randn(9, 2)).narrow(0, 1, 8);
        assertContains("::load(in0 + column)", source(in -> new Tensor[] {in[0].mul(in[0])}, numbers));
    }

    @Test
    void aThreadOfAPointwiseKernelHasOneAccessToEachTensor() {
        assertContains("CHUNKS = 1,", source(in -> new Tensor[] {in[0].exp()}, torch.randn(5000)));
    }

    @Test
    void theNumberOfARowIsLoadedOnce() {
        TensorFunction function = in -> new Tensor[] {in[0].mul(in[1]).softmax(1)};
        assertContains("x1 = loadElement(in1 + row);", source(function, torch.randn(64, 16), torch.randn(64, 1)));
    }

    @Test
    void theWidestTensorOfElementsDeterminesTheElementsOfAnAccess() {
        Tensor narrow = torch.randn(64).to(ScalarType.BFloat16);
        Tensor number = torch.randn(1).expand(64);
        assertContains("#define VEC 4", source(in -> new Tensor[] {in[0].to(ScalarType.Float)}, narrow));
        TensorFunction scale = in -> new Tensor[] {in[0].mul(in[1]).to(ScalarType.BFloat16)};
        assertContains("#define VEC 8", source(scale, narrow, number));
        Tensor mask = torch.randn(64).gt(new Scalar(0));
        assertContains("#define VEC 8", source(in -> new Tensor[] {in[0].eq(in[1])}, mask, mask.clone()));
    }

    /** Kernels that only reduce rows load what all rows share later. */
    @Test
    void kernelsWithSumsOverRowsLoadAllTensorsBeforeTheReduction() {
        TensorFunction function = in -> {
            Tensor y = in[0].softmax(1);
            return new Tensor[] {y.mul(in[1]), y.sum(0)};
        };
        String source = source(function, torch.randn(600, 96), torch.randn(96));
        int load = source.indexOf("::load(in1 + column)");
        assertTrue(load >= 0 && load < source.indexOf("reduceRow<"), source);
    }
}
