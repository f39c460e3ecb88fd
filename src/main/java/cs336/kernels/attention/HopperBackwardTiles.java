package cs336.kernels.attention;

import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Which tile Hopper's backward kernel gets. Its sizes follow from registers and shared memory: with dK and dV of 64
 * keys in a warpgroup's registers, 128 queries a step fit beside them, and 64 where rows are 128 wide. What is left to
 * choose is among how many blocks a tile of keys is shared out, so that few tiles occupy the card and the longest one
 * does not decide.
 *
 * <p>The choice goes by an estimate of the time with numbers measured on an H200, one to 32 heads of 128 to 16,384
 * queries.
 */
public final class HopperBackwardTiles {
    private static final int[] SPLITS = {1, 2, 4};
    private static final double START = 4.7; // µs: a block's beginning and end
    private static final double GATHER = 0.9; // µs: to come together in a cluster,
    private static final double GATHER_COLUMN = 0.024; // and for each column and block of it
    private static final double UNUSED_BY_FOURS = 1.3; // not all multiprocessors find partners for clusters of 4

    private HopperBackwardTiles() {}

    /** All that there are. */
    public static Stream<HopperBackwardTile> all() {
        return HeadWidths.ALL.stream()
                .flatMap(width -> IntStream.of(SPLITS).mapToObj(split -> new HopperBackwardTile(width, split)));
    }

    /**
     * The tile for so much work.
     *
     * @param heads batch · heads
     * @param multiprocessors of the card
     */
    public static HopperBackwardTile tile(
            long d, long heads, long queries, long keys, boolean causal, int multiprocessors) {
        HopperBackwardTile best = null;
        double least = Double.POSITIVE_INFINITY;
        for (int split : SPLITS) {
            var tile = new HopperBackwardTile(HeadWidths.of(d), split);
            double time = time(tile, heads, queries, keys, causal, multiprocessors);
            if (time < least) {
                least = time;
                best = tile;
            }
        }
        return best;
    }

    /** In µs: that of the longest block, or that of all blocks evenly on all multiprocessors, if that is more. */
    private static double time(
            HopperBackwardTile tile, long heads, long queries, long keys, boolean causal, int multiprocessors) {
        int split = tile.split();
        long tiles = ceilDiv(keys, HopperBackwardTile.KEYS);
        long blocks = ceilDiv(queries, tile.queries());
        double fixed = START + (split == 1 ? 0 : GATHER + GATHER_COLUMN * tile.width() * (split - 1));
        double longest = fixed + ceilDiv(blocks, split) * step(tile);
        double all = heads * (tiles * split * fixed + steps(tile, tiles, blocks, causal) * step(tile));
        return Math.max(longest, all / multiprocessors * (split == 4 ? UNUSED_BY_FOURS : 1));
    }

    /** Pairs of a tile of keys and a block of queries. */
    private static long steps(HopperBackwardTile tile, long tiles, long blocks, boolean causal) {
        if (!causal) return tiles * blocks;
        long fewer = HopperBackwardTile.KEYS / tile.queries(); // for each tile than for the one before
        long seen = Math.min(tiles, ceilDiv(blocks, fewer));
        return seen * blocks - fewer * seen * (seen - 1) / 2;
    }

    /** Time of a step in µs. */
    private static double step(HopperBackwardTile tile) {
        return switch (tile.width()) {
            case 16 -> 1.5;
            case 32 -> 1.9;
            case 64 -> 2.2;
            default -> 2.1; // of half as many queries
        };
    }

    /**
     * How many heads are worked on together: as many as have queries, dO and the sum of dQ in half of the card's L2.
     *
     * @param l2Bytes of the card
     */
    static int headGroup(HopperBackwardTile tile, long queries, long l2Bytes) {
        long bytes = queries * tile.width() * (2 + 2 + Float.BYTES);
        return (int) Math.max(1, Math.min(Integer.MAX_VALUE, l2Bytes / 2 / bytes));
    }

    private static long ceilDiv(long a, long b) {
        return (a + b - 1) / b;
    }
}
