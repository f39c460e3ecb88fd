package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class HopperForwardTileTest {
    private static final int H200 = 132; // multiprocessors

    private static HopperForwardTile tile(int d, int heads, int queries, int keys, boolean causal) {
        return HopperForwardTile.of(d, heads, queries, keys, causal, H200);
    }

    @ParameterizedTest
    @ValueSource(ints = {16, 32, 64, 128})
    void manyTilesHaveSeparateQueriesAndFewSplitKeys(int d) {
        for (boolean causal : new boolean[] {false, true}) {
            assertEquals(1, tile(d, 16, 16384, 16384, causal).cluster());
            assertTrue(!tile(d, 16, 16384, 16384, causal).splitKeys());
            assertTrue(tile(d, 1, 4096, 4096, causal).splitKeys());
            assertTrue(tile(d, 1, 1024, 1024, causal).splitKeys());
        }
    }

    @Test
    void wideHeadsUseLargerTilesIfThereAreEnough() {
        assertEquals(192, tile(128, 16, 16384, 16384, true).queries());
        assertEquals(128, tile(128, 16, 4096, 4096, true).queries()); // 8/3 rounds of tiles of 192, 4 rounds of these
    }

    @ParameterizedTest
    @ValueSource(ints = {16, 32})
    void narrowHeadsThatKeepTheGpuBusyHaveSeparateQueries(int d) {
        assertEquals(128, tile(d, 1, 32768, 32768, true).queries()); // split keys take 1.2 times as long, or more
        assertTrue(tile(d, 1, 16384, 16384, true).splitKeys());
        assertEquals(192, tile(d, 1024, 256, 256, true).queries());
    }

    @Test
    void oneQueryWithManyKeysIsSplitOverACluster() {
        assertTrue(tile(64, 1, 1, 65536, false).cluster() > 2);
        assertTrue(tile(128, 1, 1, 65536, false).cluster() > 2);
    }

    @ParameterizedTest
    @CsvSource({"1, 16", "8, 16", "16, 16", "24, 32", "40, 64", "64, 64", "72, 80", "128, 128"})
    void aTileIsAsWideAsTheHeadOrTheNextWidth(int d, int dimension) {
        assertEquals(dimension, tile(d, 4, 1000, 1000, true).dimension());
    }

    @Test
    void theLargestLaunchesDoNotOverflow() {
        assertTrue(!tile(64, 512, 65536, 65536, true).splitKeys());
    }
}
