package cs336.kernels.gemm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GpuArchitecture;
import cs336.torch.Device;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class Tf32x3GemmTest {
    @ParameterizedTest
    @CsvSource({
        "2048, 768, 768, true", // 96 tiles of 24 stages
        "512, 768, 768, false", // 24 tiles of 24 stages: fewer than 10 stages per multiprocessor
        "512, 1600, 1600, true",
        "1, 10000, 4096, false", // nearly all rows of the tiles would be empty
        "100, 10000, 4096, false",
        "128, 10000, 4096, true",
        "2560, 10240, 16, false", // half of each stage would be empty
        "2560, 10240, 256, false" // smaller depths than 512 were not measured
    })
    void largeMatricesThatFillTheirTilesAreFaster(long rows, long columns, long depth, boolean isFaster) {
        assertEquals(isFaster, Tf32x3Gemm.isFasterFor(rows, columns, depth, 132));
    }

    @ParameterizedTest
    @CsvSource({
        "sm_80, 163, true",
        "sm_90a, 227, true",
        "sm_86, 99, false",
        "sm_89, 99, false",
        "sm_100a, 227, false",
        "sm_90a, 99, false"
    })
    void onlyGpusWithFastTf32AndEnoughSharedMemoryBenefit(String architecture, int sharedKib, boolean isFaster) {
        var gpu = new Gpu(Device.cpu(), GpuArchitecture.parse(architecture), 132, 0, sharedKib * 1024, null);
        assertEquals(isFaster, Tf32x3Gemm.isFasterOn(gpu));
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
