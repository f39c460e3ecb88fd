package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class HopperBackwardTileTest {
    private static final int MULTIPROCESSORS = 132; // of an H200
    private static final int MAX_SHARED_BYTES = 227 * 1024;

    /** The fastest of 1, 2 and 4 blocks, measured on an H200. */
    @ParameterizedTest
    @CsvSource({
        "64, 1, 128, 1",
        "64, 1, 1024, 4",
        "64, 1, 4096, 4",
        "64, 1, 16384, 2",
        "64, 16, 16384, 1",
        "64, 32, 512, 1",
        "128, 1, 128, 1",
        "128, 1, 2048, 4",
        "128, 1, 16384, 2",
        "128, 32, 1024, 1"
    })
    void fewLongTilesAreSplitAndManyAreNot(int d, int heads, int length, int split) {
        HopperBackwardTile tile = HopperBackwardTile.of(d, heads, length, length, true, MULTIPROCESSORS);
        assertEquals(new HopperBackwardTile(d, split), tile);
    }

    @Test
    void everyTileFitsIntoSharedMemory() {
        HopperBackwardTile.all()
                .forEach(tile -> assertTrue(tile.sharedBytes() <= MAX_SHARED_BYTES, tile + ": " + tile.sharedBytes()));
    }

    @Test
    void headsThatFitIntoHalfOfL2AreProcessedTogether() {
        var tile = new HopperBackwardTile(64, 1);
        assertEquals(3, tile.headGroup(16384, 50L << 20));
        assertEquals(1, tile.headGroup(1 << 20, 50L << 20));
    }
}
