package cs336.kernels.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class LaunchShapeTest {
    @Test
    void sizesBeyondCudasLimitsAreRefused() {
        assertEquals(1024, new BlockDim(32, 32).threads());
        assertEquals(6L * 65_535, new GridDim(6, 65_535).blocks());
        assertRefused(() -> new BlockDim(1025), "1025 × 1 × 1");
        assertRefused(() -> new BlockDim(32, 33), "32 × 33 × 1");
        assertRefused(() -> new BlockDim(0), "0 × 1 × 1");
        assertRefused(() -> new BlockDim(1, 1, 65), "1 × 1 × 65");
        assertRefused(() -> new BlockDim(1 << 16, 1 << 16), "65536 × 65536");
        assertRefused(() -> new GridDim(0), "0 × 1 × 1");
        assertRefused(() -> new GridDim(1, 65_536), "1 × 65536 × 1");
    }

    private static void assertRefused(org.junit.jupiter.api.function.Executable make, String value) {
        String said = assertThrows(IllegalArgumentException.class, make).getMessage();
        assertTrue(said.contains(value), said);
    }

    @Test
    void architecturesAreParsedAndPrinted() {
        assertEquals(new GpuArchitecture(9, 0, true), GpuArchitecture.parse("sm_90a"));
        assertEquals(new GpuArchitecture(12, 0, false), GpuArchitecture.parse("sm_120"));
        assertEquals("sm_86", new GpuArchitecture(8, 6, false).toString());
        for (String wrong : new String[] {"90a", "sm_9", "sm_90b", "compute_90"}) {
            String said = assertThrows(IllegalArgumentException.class, () -> GpuArchitecture.parse(wrong))
                    .getMessage();
            assertTrue(said.contains("'" + wrong + "'"), said);
        }
    }
}
