package cs336.kernels.gemm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.ScopedTest;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class MixedGemmTest extends ScopedTest {
    private static final int H200_MULTIPROCESSORS = 132;

    @ParameterizedTest
    @CsvSource({
        // rows, columns, depth, weights, whether it was faster than a cast and cuBLAS on an H200
        "512, 3072, 768, 1, false", // 24 tiles for 66 clusters
        "512, 3072, 768, 2, true",
        "512, 768, 768, 3, false",
        "512, 4096, 1024, 1, false",
        "512, 4096, 1024, 2, true",
        "512, 5120, 1280, 1, true",
        "512, 5120, 1280, 2, true",
        "512, 6400, 1600, 1, true",
        "512, 6400, 1600, 2, true",
        "512, 10240, 2560, 1, true",
        "512, 2560, 2560, 3, true",
        "512, 10240, 2560, 2, true",
        "2048, 3072, 768, 1, false",
        "2048, 768, 768, 3, false",
        "2048, 5120, 1280, 1, false",
        "2048, 6400, 1600, 1, true",
        "2048, 6400, 1600, 2, true", // with split tiles, like the next ones
        "512, 1600, 6400, 1, true",
        "512, 2560, 10240, 1, true",
        "512, 10000, 2560, 1, true",
        "2048, 2560, 10240, 1, true",
        "512, 1280, 5120, 1, false",
        "512, 2560, 2560, 1, false",
        "2048, 2560, 2560, 1, false",
        "2048, 1600, 1600, 1, false",
        "2048, 1280, 1280, 3, true",
        "2048, 10240, 2560, 1, true",
        "2048, 2560, 2560, 3, true",
        "2048, 10240, 2560, 2, true",
        "512, 1600, 1600, 3, false", // not measured: a tile would have columns of two weights
        "1, 10240, 2560, 2, false", // not measured: nearly all rows of the tiles would be empty
        "0, 10240, 2560, 2, false",
        "512, 0, 2560, 2, false",
        "512, 10240, 0, 2, false"
    })
    void isUsedWhereItWasFasterThanACastAndCublas(long rows, long columns, long depth, int weights, boolean isFaster) {
        assertEquals(
                isFaster,
                new MixedGemm(Epilogue.NONE)
                        .isFaster(new LinearProblem(rows, columns, depth, weights), H200_MULTIPROCESSORS));
    }

    @ParameterizedTest
    @CsvSource({
        "GELU, 2048, 5120, 1280, 1, true", // with the saved traffic
        "GELU, 2048, 6400, 1600, 1, true", // 200 tiles for 66 clusters: two more than three each, which are split
        "SWIGLU, 2048, 6400, 1600, 2, true",
        "SWIGLU, 2048, 6424, 1600, 2, true", // half of a tile's columns belong to each weight, also in the last tile
        "SWIGLU, 1, 10240, 2560, 2, false"
    })
    void functionsOfResultsAreComputedWhereThatIsPredictedToBeFaster(
            Epilogue epilogue, long rows, long columns, long depth, int weights, boolean isFaster) {
        var problem = new LinearProblem(rows, columns, depth, weights);
        assertEquals(isFaster, new MixedGemm(epilogue).isFaster(problem, H200_MULTIPROCESSORS));
    }

    @ParameterizedTest
    @CsvSource({
        // rows, columns, depth; of 66 clusters: whole tiles, split tiles, parts
        "512, 2560, 10240, 0, 20, 3", // takes 0.79 × the time of two parts
        "512, 10240, 2560, 66, 14, 4",
        "2048, 2560, 10240, 66, 14, 4",
        "512, 6400, 1600, 50, 0, 1", // two parts need more clusters
        "512, 8448, 2560, 66, 0, 1", // no tiles remain
        "512, 768, 768, 0, 6, 3", // more parts take longer to add
        "512, 128, 102400, 0, 1, 8",
        "512, 128, 64, 1, 0, 1"
    })
    void theLastTilesAreSplitWhereThatIsFaster(
            long rows, long columns, long depth, long wholeTiles, long splitTiles, int parts) {
        var problem = new LinearProblem(rows, columns, depth, 1);
        assertEquals(
                new TileDivision(wholeTiles, splitTiles, parts),
                MixedGemm.fastestDivision(problem, H200_MULTIPROCESSORS));
    }

    @Test
    void rowsMustBeContiguousAndAligned() {
        assertTrue(supports(DType.BFLOAT16, 7, 16, 24, 1, 8), "with gaps between rows");
        assertFalse(supports(DType.BFLOAT16, 8, 16, 1, 8, 0), "by columns");
        assertFalse(supports(DType.BFLOAT16, 8, 12, 12, 1, 0), "rows that start at other addresses");
        assertFalse(supports(DType.FLOAT32, 8, 16, 16, 1, 0), "32 bits");
        assertTrue(MixedGemm.supportsWeight(DType.FLOAT32, new long[] {16, 12}, new long[] {12, 1}, 4));
        assertFalse(MixedGemm.supportsWeight(DType.FLOAT32, new long[] {12, 12}, new long[] {12, 1}, 4), "12 rows");
        assertFalse(MixedGemm.supportsWeight(DType.BFLOAT16, new long[] {16, 16}, new long[] {16, 1}, 0), "16 bits");
    }

    private static boolean supports(
            DType type, long rows, long columns, long rowStride, long columnStride, long offset) {
        return MixedGemm.supports(type, new long[] {rows, columns}, new long[] {rowStride, columnStride}, offset);
    }

    @Test
    void productsOfSeveralWeightsAreNextToEachOther() {
        Tensor x = torch.randn(new long[] {6, 8}, Device.cpu().options(DType.BFLOAT16));
        Tensor first = torch.randn(16, 8);
        Tensor second = torch.randn(16, 8);
        Tensor product = new MixedGemm(Epilogue.NONE).compute(x, first, second)[0];
        assertEquals(DType.BFLOAT16, DType.of(product));
        assertTrue(expected(x, first).equal(product.narrow(1, 0, 16)));
        assertTrue(expected(x, second).equal(product.narrow(1, 16, 16)));
    }

    private static Tensor expected(Tensor x, Tensor w) {
        return x.mm(w.to(x.scalar_type()).t());
    }
}
