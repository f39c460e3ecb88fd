package cs336.kernels.gemm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import cs336.torch.Torch;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class Tf32x3GemmTest extends ScopedTest {
    private static final double ERROR = 5e-7; // norm of the error over the norm of the product

    private static Tensor random(long rows, long columns) {
        return torch.randn(new long[] {rows, columns}, Device.cpu().options(DType.FLOAT32));
    }

    @Test
    void threeTf32MultiplicationsAreAsAccurateAsFp32() {
        Torch.seed(System.nanoTime());
        Tensor a = random(96, 200);
        Tensor b = random(64, 200).t();
        Tensor exact = a.to(DType.FLOAT64.scalarType()).mm(b.to(DType.FLOAT64.scalarType()));
        Tensor error = new Tf32x3Gemm().compute(a, b)[0].sub(exact);
        double relative = error.norm().item_double() / exact.norm().item_double();
        assertTrue(relative > 0 && relative < ERROR, "error " + relative);
    }

    @ParameterizedTest
    @CsvSource({
        "2048, 768, 768, true", // 96 tiles of 24 stages
        "512, 768, 768, false", // 24 tiles of 24 stages: fewer than 10 stages per multiprocessor
        "512, 1600, 1600, true",
        "1, 10000, 4096, false", // nearly all rows of the tiles would be empty
        "100, 10000, 4096, false",
        "128, 10000, 4096, true"
    })
    void largeMatricesThatFillTheirTilesAreFaster(long rows, long columns, long depth, boolean isFaster) {
        assertEquals(isFaster, Tf32x3Gemm.isFasterFor(rows, columns, depth, 132));
    }

    @Test
    void linesOfContiguousElementsMustBeAlignedTo16Bytes() {
        assertTrue(supports(8, 12, 12, 1, 0), "by rows");
        assertTrue(supports(8, 12, 1, 8, 0), "by columns");
        assertTrue(supports(7, 12, 16, 1, 4), "with gaps between rows");
        assertTrue(supports(8, 7, 1, 12, 0), "with gaps between columns");
        assertFalse(supports(8, 12, 13, 1, 0), "rows that start at other addresses");
        assertFalse(supports(8, 10, 12, 1, 0), "a row that ends within 16 bytes");
        assertFalse(supports(8, 12, 12, 1, 2), "a first element at another address");
        assertFalse(supports(8, 12, 24, 2, 0), "no contiguous elements");
        assertFalse(supports(8, 12, 4, 1, 0), "rows that overlap");
        assertFalse(supports(8, 12, 0, 1, 0), "one row, repeated");
    }

    private static boolean supports(long rows, long columns, long rowStride, long columnStride, long offset) {
        return Tf32x3Gemm.supports(new long[] {rows, columns}, new long[] {rowStride, columnStride}, offset);
    }
}
