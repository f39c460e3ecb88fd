package cs336.kernels.gemm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.kernels.runtime.Fp32Emulation;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class Fp32GemmTest {
    private static final int H200_MULTIPROCESSORS = 132;

    /** The comments give the measured time on H100 and H200 GPUs, relative to cuBLAS. */
    @ParameterizedTest
    @CsvSource({
        // X · Wᵀ: rows, columns, depth
        "TF32_X3, forward, 2048, 10240, 2560, true", // 0.34
        "TF32_X3, forward, 2048, 768, 768, true", // 0.38
        "TF32_X3, forward, 512, 768, 768, true", // 0.77, and the copy
        "TF32_X3, forward, 512, 768, 3072, false", // 0.91, and the copy
        "TF32_X3, forward, 512, 768, 512, false", // smaller than what was measured
        "TF32, forward, 2048, 10240, 2560, false", // Tf32Gemm is for these
        // G · W
        "TF32_X3, input, 2048, 2560, 10240, true", // 0.32
        "TF32_X3, input, 512, 1024, 4096, true", // 0.75
        "TF32, input, 2048, 2560, 10240, true", // 0.90
        "TF32, input, 2048, 2560, 2560, true", // 0.73
        "TF32, input, 512, 10240, 2560, false", // 0.92 to 0.94
        "TF32, input, 512, 1600, 6400, false", // 1.44
        "TF32, input, 512, 768, 768, false", // 1.16
        "TF32, input, 512, 6400, 1600, true", // 0.87 to 0.92
        // Gᵀ · X
        "TF32_X3, weight, 20480, 2560, 2048, true", // 0.31
        "TF32_X3, weight, 768, 768, 512, true", // 0.59
        "TF32, weight, 20480, 2560, 2048, true", // 0.59 to 0.60
        "TF32, weight, 2560, 10240, 512, true", // 0.63 to 0.69
        "TF32, weight, 768, 768, 512, false", // 1.17
        "TF32, weight, 768, 768, 2048, false", // 1.06
        "TF32, weight, 20480, 2560, 2052, false", // not supported: a depth that is no multiple of 8
    })
    void theKernelIsUsedWhereItIsPredictedToBeFaster(
            Fp32Emulation emulation, String pass, long rows, long columns, long depth, boolean isFaster) {
        boolean aByRows = !pass.equals("weight");
        boolean bByRows = !pass.equals("forward");
        long[] stridesOfA = aByRows ? new long[] {depth, 1} : new long[] {1, rows};
        long[] stridesOfB = bByRows ? new long[] {columns, 1} : new long[] {1, depth};
        assertEquals(
                isFaster,
                new Fp32Gemm(emulation)
                        .isFaster(
                                new long[] {rows, depth},
                                stridesOfA,
                                new long[] {depth, columns},
                                stridesOfB,
                                H200_MULTIPROCESSORS));
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
        return Fp32Gemm.supports(new long[] {rows, columns}, new long[] {rowStride, columnStride}, offset);
    }
}
