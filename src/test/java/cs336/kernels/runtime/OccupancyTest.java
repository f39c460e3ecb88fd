package cs336.kernels.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.kernels.runtime.Occupancy.Limit;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class OccupancyTest {
    /** Expected values are calculated by hand from the table of the programming guide. */
    @ParameterizedTest
    @CsvSource({
        "sm_90a, 32,  256,  0,      8,  64, WARPS",
        "sm_90a, 32,  32,   0,      32, 32, BLOCKS",
        "sm_90a, 128, 512,  0,      1,  16, REGISTERS",
        "sm_90a, 72,  256,  0,      3,  24, REGISTERS",
        "sm_90a, 32,  256,  65536,  3,  24, SHARED_MEMORY",
        "sm_80,  32,  256,  65536,  2,  16, SHARED_MEMORY",
        "sm_87,  32,  256,  65536,  2,  16, SHARED_MEMORY",
        "sm_86,  32,  256,  0,      6,  48, WARPS",
        "sm_90a, 32,  33,   0,      32, 64, WARPS",
    })
    void scarcestResourceLimitsTheBlocks(
            String architecture, int registers, int threads, int shared, int blocks, int warps, Limit limit) {
        var used = new KernelResources(registers, 0, 1, 0, 0, 0);
        Occupancy occupancy = used.occupancy(GpuArchitecture.parse(architecture), threads, shared);
        assertEquals(blocks, occupancy.blocks());
        assertEquals(warps, occupancy.warps());
        assertEquals(limit, occupancy.limit());
        assertEquals((double) warps / occupancy.maxWarps(), occupancy.fraction());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, -1, 1025})
    void invalidBlockSizesAreRefused(int threads) {
        var used = new KernelResources(32, 0, 1, 0, 0, 0);
        assertThrows(IllegalArgumentException.class, () -> used.occupancy(GpuArchitecture.parse("sm_80"), threads, 0));
    }
}
