package cs336.kernels.loss;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.LinearCrossEntropy;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Tag("gpu")
class FusedCrossEntropyGpuTest extends ScopedTest {
    private static final Device GPU = Device.cuda(0);
    private static final int GUARD = 16; // elements before and after the logits that must not change
    private static final double FP32_ERROR = 1e-5; // of a loss below 100 nats, and of a gradient relative to itself

    private final FusedCrossEntropy kernel = new FusedCrossEntropy();

    @BeforeEach
    void drawOtherNumbers() {
        Torch.seed(System.nanoTime());
    }

    @ParameterizedTest
    @CsvSource({
        "BFLOAT16, 1, 1", "BFLOAT16, 5, 3", "BFLOAT16, 7, 8", "BFLOAT16, 3, 1000", "BFLOAT16, 4, 8191",
        "BFLOAT16, 4, 8200", "BFLOAT16, 300, 10000", "BFLOAT16, 33, 151936", "FLOAT16, 5, 3", "FLOAT16, 9, 50257",
        "FLOAT16, 33, 151936",
    })
    void lossesAndGradientsEqualThoseInDoublePrecision(DType type, int rows, int columns) {
        for (double scale : new double[] {0.1, 3, 20}) {
            Tensor logits = torch.randn(new long[] {rows, columns}, GPU.options(DType.FLOAT32))
                    .mul(new Scalar(scale))
                    .to(type.scalarType());
            requireExact(type, logits, torch.randint(columns, new long[] {rows}, GPU.options(DType.INT64)));
        }
    }

    @Test
    void impossibleTokensHaveNoProbability() {
        Tensor logits = torch.randn(new long[] {4, 4096}, GPU.options(DType.FLOAT32));
        logits.narrow(1, 0, 3000).fill_(new Scalar(Double.NEGATIVE_INFINITY));
        requireExact(
                DType.BFLOAT16,
                logits.to(DType.BFLOAT16.scalarType()),
                torch.randint(3000, 4096, new long[] {4}, GPU.options(DType.INT64)));
    }

    @Test
    void aRowWithoutANumberHasNoLossAndLeavesOthersAlone() {
        Tensor logits = torch.randn(new long[] {3, 2048}, GPU.options(DType.BFLOAT16));
        logits.select(0, 0).narrow(0, 100, 1).fill_(new Scalar(Double.NaN));
        logits.select(0, 1).narrow(0, 100, 1).fill_(new Scalar(Double.POSITIVE_INFINITY));
        Tensor losses = kernel.replaceByGradients(logits, torch.zeros(new long[] {3}, GPU.options(DType.INT64)));
        double[] found = Tensors.toDoubles(losses);
        assertTrue(Double.isNaN(found[0]) && !Double.isFinite(found[1]) && Double.isFinite(found[2]));
        assertTrue(torch.isnan(logits.select(0, 0)).all().item_bool());
        assertTrue(torch.isfinite(logits.select(0, 2)).all().item_bool());
    }

    @Test
    void targetsThatAreNoColumnAreNotRead() {
        long[] targets = {-100, 1000, 1L << 32, 999};
        Tensor logits = torch.randn(new long[] {4, 1000}, GPU.options(DType.BFLOAT16));
        Tensor onGpu = Tensors.of(targets, 4).to(GPU.toTorch(), DType.INT64.scalarType());
        double[] losses = Tensors.toDoubles(kernel.replaceByGradients(logits, onGpu));
        for (int row = 0; row < 4; row++) {
            assertEquals(row < 3, Double.isNaN(losses[row]), "row " + row);
            assertEquals(row < 3, torch.isnan(logits.select(0, row)).all().item_bool(), "row " + row);
        }
    }

    @Test
    void targetsMustBeAVectorWithoutGaps() {
        Tensor logits = torch.randn(new long[] {4, 32}, GPU.options(DType.BFLOAT16));
        Tensor table = torch.zeros(new long[] {4, 4}, GPU.options(DType.INT64));
        for (Tensor wrong :
                List.of(table, table.select(1, 0), table.select(0, 0).to(DType.INT32.scalarType()))) {
            assertThrows(IllegalArgumentException.class, () -> kernel.replaceByGradients(logits, wrong));
        }
        Tensor x = torch.randn(new long[] {4, 8}, GPU.options(DType.BFLOAT16));
        Tensor weight = torch.randn(new long[] {32, 8}, GPU.options(DType.BFLOAT16));
        Tensor targets =
                torch.randint(32, new long[] {4, 4}, GPU.options(DType.INT64)).select(1, 2);
        assertEquals(
                LinearCrossEntropy.of(x, weight, targets.contiguous(), 2).item_double(),
                LinearCrossEntropy.of(x, weight, targets, 2).item_double());
    }

    @Test
    void onlyContiguousNarrowLogitsOnAGpuAreSupported() {
        long[] shape = {4, 32};
        assertTrue(kernel.supports(torch.randn(shape, GPU.options(DType.FLOAT16))));
        assertFalse(kernel.supports(torch.randn(shape, GPU.options(DType.FLOAT32))));
        assertFalse(
                kernel.supports(torch.randn(shape, GPU.options(DType.BFLOAT16)).t()));
        assertFalse(kernel.supports(torch.randn(shape, Device.cpu().options(DType.BFLOAT16))));
    }

    /** Compares with fp64. The logits lie between guards, and their address is aligned to one row only. */
    private void requireExact(DType type, Tensor values, Tensor targets) {
        long rows = values.size(0);
        long columns = values.size(1);
        Tensor memory =
                torch.full(new long[] {values.numel() + 2 * GUARD + columns}, new Scalar(512.0), GPU.options(type));
        Tensor logits = memory.narrow(0, GUARD + columns, values.numel()).view(rows, columns);
        logits.copy_(values);
        Tensor exact = values.to(DType.FLOAT64.scalarType()).log_softmax(1);
        Tensor expected = exact.exp();
        Tensor ofTargets = exact.gather(1, targets.unsqueeze(1));
        expected.scatter_add_(1, targets.unsqueeze(1), torch.full_like(ofTargets, new Scalar(-1.0)));

        Tensor losses = kernel.replaceByGradients(logits, targets);

        double error = losses.add(ofTargets.squeeze(1)).abs().max().item_double();
        assertTrue(error <= 10 * FP32_ERROR, "loss differs by " + error);
        double rounding = type == DType.BFLOAT16 ? 0x1p-8 : 0x1p-11;
        double smallest = type == DType.BFLOAT16 ? 0 : 0x1p-24; // the distance of subnormal fp16 numbers
        Tensor bound = expected.abs().mul(new Scalar(rounding + FP32_ERROR)).add(new Scalar(smallest + 1e-37));
        Tensor difference = logits.to(DType.FLOAT64.scalarType()).sub(expected).abs();
        // p − 1 of a target with a large probability has the absolute error of p.
        Tensor allowed = bound.scatter_add(1, targets.unsqueeze(1), torch.full_like(ofTargets, new Scalar(FP32_ERROR)));
        assertTrue(difference.le(allowed).all().item_bool(), type + " " + rows + " × " + columns);
        for (Tensor guard :
                List.of(memory.narrow(0, 0, GUARD + columns), memory.narrow(0, memory.numel() - GUARD, GUARD))) {
            assertEquals(guard.numel(), guard.eq(new Scalar(512.0)).sum().item_long());
        }
    }
}
