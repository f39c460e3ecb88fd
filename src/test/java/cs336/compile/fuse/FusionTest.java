package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Interpreter;
import cs336.compile.program.Program;
import cs336.compile.trace.Recorder;
import cs336.compile.trace.TensorFunction;
import cs336.torch.Device;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

/** The groups that operations join. */
class FusionTest extends ScopedTest {
    /** The group of the row sums becomes an ancestor of the matrix multiplication after both exist. */
    @Test
    void anOperationJoinsNoGroupOnWhichItsOtherInputDepends() {
        TensorFunction function = in -> {
            Tensor square = in[0].mul(in[0]);
            Tensor rowSums = in[1].sum(1);
            Tensor product = in[2].matmul(square);
            Tensor shifted = square.add(rowSums); // joins the square, which now depends on the row sums
            return new Tensor[] {shifted, rowSums.add(product)};
        };
        assertKernels(3, function, torch.randn(8, 16), torch.randn(16, 64), torch.randn(8));
    }

    /** The sums of 3 × 5 rows and the 5 numbers, which repeat after 5 rows, not after 5 elements. */
    @Test
    void anOperationOnSumsOfRowsJoinsThem() {
        assertKernels(1, in -> new Tensor[] {in[0].sum(2).add(in[1]).exp()}, torch.randn(3, 5, 8), torch.randn(5));
    }

    /** The second kernel computes the exponential from the input again. */
    @Test
    void aValueThatItsOnlyOtherReaderRecomputesIsNotStored() {
        TensorFunction function = in -> {
            Tensor y = in[0].exp();
            Tensor product = y.sum(1).unsqueeze(1).matmul(in[1]);
            return new Tensor[] {y.add(product)};
        };
        Tensor[] inputs = {torch.randn(8, 16), torch.randn(1, 16)};
        Program fused = assertKernels(2, function, inputs);
        List<Long> stored = fused.operations().stream()
                .filter(operation -> operation.operator() instanceof FusedKernel)
                .map(kernel -> kernel.creates().stream()
                        .mapToLong(value -> value.layout().elements())
                        .sum())
                .toList();
        assertEquals(List.of(8L, 8 * 16L), stored, fused.toString());
    }

    /** A thread computes both parts of a complex number, which rows of three reals would divide. */
    @Test
    void rowsDoNotDivideComplexNumbers() {
        Tensor pairs = torch.view_as_complex(torch.randn(6, 2));
        assertKernels(1, in -> new Tensor[] {real(in[0]).view(3, 4).sum(1)}, pairs);
        assertKernels(2, in -> new Tensor[] {real(in[0]).view(4, 3).sum(1)}, pairs);
    }

    private static Tensor real(Tensor x) {
        return torch.view_as_real(x.mul(x));
    }

    private static Program assertKernels(int expected, TensorFunction function, Tensor... inputs) {
        try (var noGrad = NoGrad.open()) {
            Program fused = FusionPasses.fuse(Recorder.record(function, inputs), Device.cpu());
            long kernels = fused.operations().stream()
                    .filter(operation -> operation.operator() instanceof FusedKernel)
                    .count();
            assertEquals(expected, kernels, fused.toString());
            Tensor[] eager = function.apply(inputs);
            Tensor[] got = new Interpreter(fused).run(inputs);
            for (int i = 0; i < eager.length; i++) {
                assertTrue(torch.allclose(eager[i], got[i]), "output " + i);
            }
            return fused;
        }
    }
}
