package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.fuse.KernelEmitter.EmittedKernel;
import cs336.compile.program.Argument.View;
import cs336.compile.program.Layout;
import cs336.compile.program.Operation;
import cs336.compile.program.Program;
import cs336.compile.program.ProgramValue;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Device;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.bytedeco.pytorch.LongOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.junit.jupiter.api.Test;

/**
 * The tensors that a kernel gets for inputs whose addresses are not aligned to its accesses, and the source that equal
 * kernels share.
 */
class FusedKernelTest extends ScopedTest {
    private static FusedKernel kernel(TensorFunction function, Tensor... inputs) {
        try (var noGrad = NoGrad.open()) {
            Program fused = FusionPasses.fuse(Recorder.record(function, inputs), Device.cpu());
            return (FusedKernel) fused.operations().get(0).operator();
        }
    }

    /** Checks that each view that the kernel reads has its elements at the same distance from an aligned address. */
    private static void assertReadable(FusedKernel kernel, ProgramValue value, Tensor input) {
        Tensor got = kernel.aligned(value, input);
        assertEquals(0, got.data_ptr().address() % KernelEmitter.ACCESS_BYTES);
        for (View view : kernel.group().loads()) {
            if (view.value() == value) {
                Layout layout = view.layout();
                long distance = layout.offset() - value.layout().offset();
                Tensor expected = strided(input, layout, distance);
                assertTrue(torch.equal(expected, strided(got, layout, distance)), view.toString());
            }
        }
    }

    private static Tensor strided(Tensor tensor, Layout layout, long distance) {
        var start = new LongOptional(tensor.storage_offset() + distance);
        return torch.as_strided(tensor, layout.shape(), layout.strides(), start);
    }

    @Test
    void alignedInputsAreNotCopied() {
        Tensor x = torch.randn(4, 8);
        FusedKernel kernel = kernel(in -> new Tensor[] {in[0].exp()}, x);
        assertSame(x, kernel.aligned(kernel.inputs().get(0), x));
    }

    @Test
    void aCopyKeepsTheStrides() {
        Tensor columns = torch.randn(4, 9).narrow(1, 1, 8);
        FusedKernel kernel = kernel(in -> new Tensor[] {in[0].exp()}, columns);
        assertReadable(kernel, kernel.inputs().get(0), columns);
        Tensor repeated = torch.randn(9).narrow(0, 1, 8).expand(4, 8);
        kernel = kernel(in -> new Tensor[] {in[0].exp()}, repeated);
        assertReadable(kernel, kernel.inputs().get(0), repeated);
    }

    @Test
    void aCopyContainsWhatOtherViewsRead() {
        Tensor x = torch.randn(21);
        Tensor[] shifted = {x.narrow(0, 3, 16), x.narrow(0, 0, 16), x.narrow(0, 5, 16)};
        FusedKernel kernel = kernel(in -> new Tensor[] {in[0].sub(in[1]).mul(in[2])}, shifted);
        assertEquals(1, kernel.inputs().size());
        assertReadable(kernel, kernel.inputs().get(0), shifted[0]);
    }

    /** A tensor without elements has no address. */
    @Test
    void aCopyContainsWhatIsReadOfTheStorageOfAnEmptyInput() {
        Tensor x = torch.randn(32);
        Tensor[] parts = {x.narrow(0, 16, 0), x.narrow(0, 8, 16)};
        FusedKernel kernel = kernel(in -> new Tensor[] {in[0], in[1].exp()}, parts);
        assertEquals(1, kernel.inputs().size());
        assertReadable(kernel, kernel.inputs().get(0), parts[0]);
    }

    @Test
    void aCopyContainsPairsOfReals() {
        Tensor pairs = torch.view_as_complex(torch.randn(9, 2)).narrow(0, 1, 8);
        FusedKernel kernel = kernel(in -> new Tensor[] {torch.view_as_real(in[0].mul(in[0]))}, pairs);
        Tensor got = kernel.aligned(kernel.inputs().get(0), pairs);
        assertEquals(0, got.data_ptr().address() % KernelEmitter.ACCESS_BYTES);
        assertTrue(torch.equal(pairs, got));
    }

    /** The rows of a block add up one sum after the other in the same shared memory. */
    @Test
    void sumsOverRowsHaveRoomForTheWidestDtype() {
        FusedKernel kernel = kernel(
                in -> new Tensor[] {
                    in[0].exp(), in[0].sum(0), in[0].to(ScalarType.Double).sum(0)
                },
                torch.randn(64, 64));
        assertEquals(3, kernel.outputs().size());
        EmittedKernel form = kernel.emitted();
        int blockRows = form.blockThreads() / 32; // a warp computes a row
        assertEquals(blockRows * 64 * Double.BYTES, form.staticBytes(), form.source());
    }

    @Test
    void onlyEqualKernelsShareASource() {
        Tensor[] inputs = new Tensor[10];
        Arrays.setAll(inputs, i -> torch.randn(4, i == 8 ? 16 : 8));
        TensorFunction function = in -> new Tensor[] {
            in[0].exp(),
            in[1].exp(), // the same
            in[2].tanh(), // another operator
            in[3].mul(new Scalar(2)),
            in[4].mul(new Scalar(3)), // another number
            in[5].sub(in[6]).mul(in[6]),
            in[7].sub(in[9]).mul(in[7]), // another operand
            in[8].exp() // another shape
        };
        try (var noGrad = NoGrad.open()) {
            Program fused = FusionPasses.fuse(Recorder.record(function, inputs), Device.cpu());
            Set<String> sources = new HashSet<>();
            FusionPasses.kernels(fused).forEach(kernel -> sources.add(kernel.source()));
            for (Operation operation : fused.operations()) {
                FusedKernel kernel = (FusedKernel) operation.operator();
                Operation separate = FusedKernel.of(kernel.group(), kernel.outputs(), Device.cpu());
                assertEquals(((FusedKernel) separate.operator()).emitted(), kernel.emitted());
            }
            assertEquals(fused.operations().size() - 1, sources.size());
        }
    }
}
