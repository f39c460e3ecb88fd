package cs336.kernels.gemm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.kernels.runtime.Gpu;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Tag("gpu")
class OperandCopyGpuTest extends ScopedTest {
    private static final Device GPU = Device.cuda(0);

    @ParameterizedTest
    @CsvSource({"4, 4", "64, 64", "100, 36", "260, 132", "2048, 2560"})
    void copiesAreExact(long rows, long columns) {
        assumeTrue(Gpu.of(GPU).runsKernels(), "needs sm_80");
        Torch.seed(System.nanoTime());
        Tensor x = torch.randn(new long[] {rows, columns + 4}, GPU.options(DType.FLOAT32))
                .narrow(1, 4, columns);
        assertTrue(x.t().equal(OperandCopy.of(x, true, 1)[0]), "transposed");
        for (boolean isTransposed : new boolean[] {false, true}) {
            Tensor[] parts = OperandCopy.of(x, isTransposed, 2);
            assertTrue((isTransposed ? x.t() : x).equal(parts[0].add(parts[1])), "transposed: " + isTransposed);
            Tensor ignored = parts[0].view(torch.ScalarType.Int).__and__(new Scalar((1 << 13) - 1));
            assertEquals(0, ignored.count_nonzero().item_long(), "bits that TF32 does not have");
        }
    }
}
