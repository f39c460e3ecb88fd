package cs336.kernels;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.Set;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class SmallLaunchesTest {
    @Test
    void allKernelsOfTheSourcesAreKnown() throws IOException {
        assertEquals(
                Set.of(
                        "adamw",
                        "column_sum",
                        "cross_entropy",
                        "flash_backward_keys",
                        "flash_backward_queries",
                        "flash_delta",
                        "flash_forward",
                        "flash_hopper_backward",
                        "flash_hopper_forward",
                        "flash_mma_forward",
                        "flash_mma_keys",
                        "flash_mma_queries",
                        "flash_rows_after",
                        "flash_rows_before",
                        "gemm_fp32",
                        "gemm_mixed",
                        "gemm_mixed_sum",
                        "gemm_tf32",
                        "operand_copy",
                        "rmsnorm_backward",
                        "rmsnorm_forward",
                        "weighted_sum_backward",
                        "weighted_sum_forward"),
                SmallLaunches.names());
    }

    @Test
    @Tag("gpu")
    void allKernelsAreLaunchedOnAHopperGpu() throws IOException {
        assertTrue(SmallLaunches.launch(SmallLaunches.GROUPS.keySet()).containsAll(SmallLaunches.names()));
    }
}
