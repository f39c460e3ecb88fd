package cs336.kernels.attention;

import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import cs336.units.IntegerMath;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The tile sizes of Hopper's forward kernel, {@code kernels/flash_hopper_forward.cu}, which explains each number.
 * {@link #of} selects the tile with the shortest estimated kernel time among those that fit into registers and shared
 * memory. Large tiles read keys less often and are fastest once there are enough of them. If there are few tiles, small
 * ones with split keys keep all multiprocessors occupied, and clusters do so if there are very few. The estimate uses
 * times fitted to those that {@code HopperForwardTileSearch}, among the tests, measured on an H200. Some of the times
 * for 80 columns are estimates.
 *
 * @param dimension columns of the kernel: 16, 32, 64, 80 or 128
 * @param consumers warpgroups that compute
 * @param splitKeys whether the consumers share the same queries, and each processes a fraction of the blocks of keys
 * @param cluster blocks per cluster; they split the keys of a tile in the same way. 1 unless {@code splitKeys}
 * @param keys keys per block of keys
 * @param stages blocks of keys, and of values, in shared memory; per consumer if {@code splitKeys}
 */
public record HopperForwardTile(int dimension, int consumers, boolean splitKeys, int cluster, int keys, int stages) {
    public static final String FILE = "flash_hopper_forward.cu";
    public static final String KERNEL = "flash_hopper_forward";

    /** Query rows in a TMA box. */
    static final int BOX_ROWS = 64;

    /** Columns in a TMA box: 128 bytes. */
    static final int BOX_COLUMNS = 64;

    private static final int WARPGROUP = 128;
    private static final int ELEMENT_BYTES = 2;
    private static final int Q_BUFFERS = 2;
    private static final int BARRIER_BYTES = 8;
    private static final int STATISTICS = 4; // fp32 values per thread
    private static final int MANY_ROUNDS = 8;

    /** All tiles with their times, by columns of the kernel. */
    private static final Map<Integer, List<TimedForwardTile>> TILES = Stream.of(
                    separate(16, 3, 128, 4, 1.1, 1.01),
                    separate(16, 2, 128, 4, 1.6, 0.840),
                    split(16, 3, 1, 3, 1.3, 0.221, 0.279),
                    split(16, 3, 2, 3, 2.3, 0.092, 0.135),
                    split(16, 3, 4, 3, 3.4, 0.060, 0.060),
                    split(16, 3, 8, 3, 5.5, 0.026, 0.027),
                    separate(32, 3, 128, 4, 1.4, 1.09),
                    separate(32, 2, 128, 4, 1.7, 0.894),
                    split(32, 3, 1, 3, 1.6, 0.210, 0.265),
                    split(32, 3, 2, 3, 2.7, 0.100, 0.132),
                    split(32, 3, 4, 3, 3.6, 0.059, 0.059),
                    split(32, 3, 8, 3, 5.7, 0.028, 0.028),
                    separate(64, 3, 128, 4, 1.7, 1.29),
                    separate(64, 2, 128, 4, 2.2, 1.00),
                    split(64, 3, 1, 3, 2.1, 0.230, 0.234),
                    split(64, 3, 2, 3, 3.1, 0.129, 0.129),
                    split(64, 3, 4, 3, 4.6, 0.061, 0.065),
                    split(64, 3, 8, 3, 7.5, 0.032, 0.036),
                    // split(80, …): busy times from those of 128 and ratios measured with 256 heads; the others are
                    // estimates, not measured
                    separate(80, 3, 64, 4, 2.6, 0.72),
                    separate(80, 2, 128, 2, 3.2, 1.12),
                    split(80, 2, 1, 2, 2.4, 0.29, 0.33),
                    split(80, 2, 2, 2, 3.2, 0.165, 0.183),
                    split(80, 2, 4, 2, 5.7, 0.086, 0.088),
                    split(80, 2, 8, 2, 9.7, 0.043, 0.045),
                    separate(128, 3, 64, 4, 3.2, 0.889),
                    separate(128, 2, 128, 2, 3.7, 1.24),
                    split(128, 2, 1, 2, 2.7, 0.336, 0.476),
                    split(128, 2, 2, 2, 3.5, 0.193, 0.242),
                    split(128, 2, 4, 2, 6.2, 0.100, 0.112),
                    split(128, 2, 8, 2, 10.6, 0.049, 0.058))
            .collect(Collectors.groupingBy(timed -> timed.tile.dimension()));

    /** Returns a tile whose consumers have separate queries. */
    private static TimedForwardTile separate(
            int dimension, int consumers, int keys, int stages, double fixed, double perBlock) {
        return new TimedForwardTile(
                new HopperForwardTile(dimension, consumers, false, 1, keys, stages), fixed, perBlock, perBlock);
    }

    /**
     * Returns a tile whose consumers, in all blocks of a cluster, share the queries and split the keys, 64 per block of
     * keys.
     */
    private static TimedForwardTile split(
            int dimension,
            int consumers,
            int cluster,
            int stages,
            double fixed,
            double perBlock,
            double perBlockWhenBusy) {
        return new TimedForwardTile(
                new HopperForwardTile(dimension, consumers, true, cluster, 64, stages),
                fixed,
                perBlock,
                perBlockWhenBusy);
    }

    /**
     * Selects the tile for attention of this size.
     *
     * @param d head dimension, at most 128
     * @param heads heads of the whole batch
     * @param queries queries per head
     * @param keys keys per head
     * @param multiprocessors multiprocessors of the GPU
     * @throws IllegalArgumentException if d is above 128
     */
    public static HopperForwardTile of(int d, int heads, int queries, int keys, boolean causal, int multiprocessors) {
        TimedForwardTile best = null;
        double shortest = Double.POSITIVE_INFINITY;
        for (TimedForwardTile timed : TILES.get(HeadWidths.of(d))) {
            double time = timed.time(heads, queries, keys, causal, multiprocessors);
            if (time < shortest) {
                best = timed;
                shortest = time;
            }
        }
        return best.tile();
    }

    /** Returns all tiles that {@link #of} can select. */
    public static List<HopperForwardTile> all() {
        return HeadWidths.ALL.stream()
                .flatMap(dimension -> TILES.get(dimension).stream())
                .map(TimedForwardTile::tile)
                .toList();
    }

    /** Returns the number of queries in a tile. */
    int queries() {
        return splitKeys ? BOX_ROWS : consumers * BOX_ROWS;
    }

    /**
     * Returns the number of tiles of all heads.
     *
     * @throws ArithmeticException if the kernel could not count them in 32 bits
     */
    int tiles(int heads, int rows) {
        return Math.toIntExact((long) heads * IntegerMath.ceilDiv(rows, queries()));
    }

    /**
     * Returns the number of clusters that run concurrently. Clusters of more than 2 blocks must lie within a group of
     * multiprocessors and leave some of them idle.
     */
    int clusters(int multiprocessors) {
        return (cluster <= 2 ? multiprocessors : multiprocessors * 6 / 7) / cluster;
    }

    /** Returns the number of threads in a block. */
    public int blockThreads() {
        return (1 + consumers) * WARPGROUP;
    }

    /** Returns the dynamic shared memory of a block, in bytes. */
    public int sharedBytes() {
        int rowBytes = IntegerMath.roundUp(dimension, BOX_COLUMNS) * ELEMENT_BYTES;
        int keyBlocks = stages * (splitKeys ? consumers : 1);
        int partials = splitKeys ? (consumers - 1) * (dimension / 2 + STATISTICS) * WARPGROUP * Float.BYTES : 0;
        int barriers = 2 * Q_BUFFERS + 4 * keyBlocks + 2;
        return (Q_BUFFERS * queries() + 2 * keyBlocks * keys) * rowBytes + partials + barriers * BARRIER_BYTES;
    }

    /** Returns the macros that the kernel is compiled with. */
    public Map<String, Object> defines(DType type) {
        Map<String, Object> defines = new LinkedHashMap<>();
        defines.put("ELEMENT", RowLayout.cudaName(type));
        defines.put("DIMENSION", dimension);
        defines.put("CONSUMERS", consumers);
        defines.put("SPLIT_KEYS", splitKeys ? 1 : 0);
        defines.put("CLUSTER", cluster);
        defines.put("KEYS", keys);
        defines.put("STAGES", stages);
        return defines;
    }

    /**
     * A tile and its times, most of which were measured.
     *
     * @param fixed µs before and after a tile's blocks of keys
     * @param perBlock µs per block of keys, divided by the number of warpgroups that split the keys
     * @param perBlockWhenBusy the same while all multiprocessors work. This was measured to be longer for most tiles
     *     that split the keys, which read keys for fewer queries
     */
    private record TimedForwardTile(HopperForwardTile tile, double fixed, double perBlock, double perBlockWhenBusy) {
        /** Returns the estimated time in µs: of the cluster that finishes last, or of a GPU that is always busy. */
        double time(int heads, int queries, int keys, boolean causal, int multiprocessors) {
            int concurrent = tile.clusters(multiprocessors);
            int rounds = IntegerMath.ceilDiv(tile.tiles(heads, queries), concurrent);
            double longest = 0;
            if (!causal) {
                longest = rounds * (fixed + perBlock * blocks(keys));
            } else if (rounds <= MANY_ROUNDS) { // with more, all clusters have nearly the same amount of work
                longest = longestTime(rounds, concurrent, heads, queries, keys);
            }
            return rounds == 1 ? longest : Math.max(longest, meanTime(heads, queries, keys, causal, concurrent));
        }

        /** Returns the mean of the clusters' estimated times in µs if all multiprocessors are busy. */
        private double meanTime(int heads, int queries, int keys, boolean causal, int concurrent) {
            int tiles = tile.tiles(1, queries);
            long blocks = 0; // of the tiles of one head
            for (int fromLast = 0; fromLast < tiles; fromLast++) {
                blocks += blocks(causal ? Math.min(keys, queryEnd(queries, fromLast)) : keys);
            }
            return (fixed * tiles + perBlockWhenBusy * blocks) * heads / concurrent;
        }

        /**
         * Returns the estimated time in µs until the last cluster finishes, with a causal mask; the kernel explains the
         * assignment of tiles.
         */
        private double longestTime(int rounds, int concurrent, int heads, int queries, int keys) {
            int tiles = tile.tiles(heads, queries);
            double first = clusterTime(0, rounds, tiles, concurrent, heads, queries, keys);
            if (rounds == 1) {
                return first;
            }
            int remaining = tiles - (rounds - 1) * concurrent; // tiles of the last round
            // The last cluster with a tile in the last round; rounds alternate in direction.
            int lastOccupied = rounds % 2 == 1 ? remaining - 1 : concurrent - remaining;
            double last = clusterTime(concurrent - 1, rounds, tiles, concurrent, heads, queries, keys);
            return Math.max(
                    Math.max(first, last), clusterTime(lastOccupied, rounds, tiles, concurrent, heads, queries, keys));
        }

        /** Returns the estimated time in µs of all tiles of one cluster, with a causal mask. */
        private double clusterTime(
                int cluster, int rounds, int tiles, int concurrent, int heads, int queries, int keys) {
            double sum = 0;
            for (int round = 0; round < rounds; round++) {
                int number = round * concurrent + (round % 2 == 0 ? cluster : concurrent - 1 - cluster);
                if (number < tiles) {
                    sum += fixed + perBlock * blocks(Math.min(keys, queryEnd(queries, number / heads)));
                }
            }
            return sum;
        }

        /** Returns the end of the queries of a tile, counted from the last tile of a head. */
        private int queryEnd(int queries, int fromLast) {
            return IntegerMath.roundUp(queries, BOX_ROWS) - fromLast * tile.queries();
        }

        private int blocks(int keys) {
            return IntegerMath.ceilDiv(keys, tile.keys());
        }
    }
}
