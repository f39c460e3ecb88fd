package cs336.kernels.gemm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.ScopedTest;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class Tf32GemmTest extends ScopedTest {
    private static final int H200_MULTIPROCESSORS = 132;

    @ParameterizedTest
    @CsvSource({
        // rows, columns, depth, whether it was faster than cuBLAS on an H200
        "512, 768, 768, false", // 16 tiles for 66 clusters
        "512, 3072, 768, true",
        "512, 768, 3072, false",
        "512, 10000, 768, true",
        "512, 1280, 1280, false",
        "512, 5120, 1280, true",
        "512, 6400, 1600, true",
        "512, 2560, 2560, true",
        "512, 10240, 2560, true",
        "512, 2560, 10240, true",
        "2048, 768, 768, true",
        "2048, 3072, 768, false", // three tiles per cluster, of little depth
        "2048, 4096, 1024, false",
        "2048, 5120, 1280, false",
        "2048, 1600, 1600, true",
        "2048, 6400, 1600, true",
        "2048, 2560, 2560, true",
        "2048, 10240, 2560, true",
        "1, 10240, 2560, false", // nearly all rows of the tiles would be empty
        "128, 10240, 2560, false",
        "0, 10240, 2560, false",
        "512, 0, 2560, false",
        "512, 10240, 0, false"
    })
    void isUsedWhereItWasFasterThanCublas(long rows, long columns, long depth, boolean isFaster) {
        assertEquals(
                isFaster,
                new Tf32Gemm(Epilogue.NONE).isFaster(new LinearProblem(rows, columns, depth, 1), H200_MULTIPROCESSORS));
    }

    @ParameterizedTest
    @CsvSource({
        "512, 768, 768, 3, true", // queries, keys and values
        "512, 2560, 2560, 3, true",
        "2048, 2560, 2560, 3, true",
        "512, 10240, 2560, 2, true", // w1 and w3
        "512, 6400, 1600, 2, false", // 100 tiles together, but 31 each
        "512, 776, 768, 3, false" // a tile would have columns of two weights
    })
    void severalWeightsAreMultipliedTogetherWhereThatWasFaster(
            long rows, long columns, long depth, int weights, boolean isFaster) {
        var problem = new LinearProblem(rows, columns, depth, weights);
        assertEquals(isFaster, new Tf32Gemm(Epilogue.NONE).isFaster(problem, H200_MULTIPROCESSORS));
    }

    @ParameterizedTest
    @CsvSource({
        "SWIGLU, 512, 10240, 2560, 2, true",
        "SWIGLU, 2048, 10240, 2560, 2, true",
        "SWIGLU, 2048, 5120, 1280, 2, true", // with the saved traffic
        "SWIGLU, 512, 6400, 1600, 2, true", // two waves of tiles, one for each weight, and the saved traffic
        "SWIGLU, 128, 10240, 2560, 2, false", // half of the tiles would be empty
        "GELU, 2048, 10240, 2560, 1, true",
        "GELU, 2048, 3072, 768, 1, true", // with the saved traffic
        "GELU, 128, 10240, 2560, 1, false"
    })
    void functionsOfResultsAreComputedWhereThatIsPredictedToBeFaster(
            Epilogue epilogue, long rows, long columns, long depth, int weights, boolean isFaster) {
        var problem = new LinearProblem(rows, columns, depth, weights);
        assertEquals(isFaster, new Tf32Gemm(epilogue).isFaster(problem, H200_MULTIPROCESSORS));
    }

    @Test
    void rowsMustBeContiguousAndAligned() {
        assertTrue(supports(7, 12, 16, 1, 4), "with gaps between rows");
        assertFalse(supports(8, 12, 1, 8, 0), "by columns");
        assertFalse(supports(8, 12, 13, 1, 0), "rows that start at other addresses");
        assertFalse(supports(8, 10, 12, 1, 0), "a row that ends within 16 bytes");
        assertFalse(supports(8, 12, 12, 1, 2), "a first element at another address");
    }

    private static boolean supports(long rows, long columns, long rowStride, long columnStride, long offset) {
        return Tf32Gemm.supports(
                DType.FLOAT32, new long[] {rows, columns}, new long[] {rowStride, columnStride}, offset);
    }

    @Test
    void productsOfSeveralWeightsAreNextToEachOther() {
        Tensor x = torch.randn(6, 8);
        Tensor first = torch.randn(12, 8);
        Tensor second = torch.randn(12, 8);
        Tensor product = new Tf32Gemm(Epilogue.NONE).compute(x, first, second)[0];
        assertTrue(torch.allclose(x.mm(first.t()), product.narrow(1, 0, 12), 1e-5, 1e-5, false));
        assertTrue(torch.allclose(x.mm(second.t()), product.narrow(1, 12, 12), 1e-5, 1e-5, false));
    }
}
