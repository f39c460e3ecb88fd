package cs336.kernels.attention;

import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import cs336.units.IntegerMath;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * The tile sizes of Hopper's backward kernel, {@code kernels/flash_hopper_backward.cu}, which explains each number. The
 * sizes follow from registers and shared memory: next to dK and dV of 64 keys, a warpgroup's registers hold a step of
 * 128 queries, or of 64 if rows are wider than 64. {@link #of} selects only the number of blocks that split the queries
 * of a tile of keys, so that few tiles occupy all multiprocessors and the longest tile does not dominate. It estimates
 * the time with numbers measured on an H200 for 1 to 32 heads of 128 to 16,384 queries.
 *
 * @param width columns of the kernel: 16, 32, 64, 80 or 128
 * @param split blocks that share the queries of a tile of keys: 1, 2 or 4
 */
public record HopperBackwardTile(int width, int split) {
    public static final String FILE = "flash_hopper_backward.cu";
    public static final String KERNEL = "flash_hopper_backward";

    /** Threads in a block. */
    public static final int THREADS = 384;

    /** Keys in a tile. */
    static final int KEYS = 128;

    /** Rows and columns of the TMA boxes that store dK and dV. */
    static final int BOX = 64;

    private static final int STAGES = 2;
    private static final int CONSUMERS = 2;
    private static final int ELEMENT_BYTES = 2;
    private static final int BARRIER_BYTES = 8;

    private static final int[] SPLITS = {1, 2, 4};
    private static final double FIXED = 4.7; // µs: start and end of a block
    private static final double GATHER = 0.9; // µs: synchronization of a cluster
    private static final double GATHER_COLUMN = 0.024; // µs per column and additional block of a cluster
    private static final double CLUSTER_OF_4_OVERHEAD = 1.3; // clusters of 4 leave some multiprocessors idle

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
    public static HopperBackwardTile of(
            long d, long heads, long queries, long keys, boolean causal, int multiprocessors) {
        HopperBackwardTile best = null;
        double shortest = Double.POSITIVE_INFINITY;
        for (int split : SPLITS) {
            var tile = new HopperBackwardTile(HeadWidths.of(d), split);
            double time = tile.time(heads, queries, keys, causal, multiprocessors);
            if (time < shortest) {
                shortest = time;
                best = tile;
            }
        }
        return best;
    }

    /** Returns all tiles that {@link #of} can select. */
    public static Stream<HopperBackwardTile> all() {
        return HeadWidths.ALL.stream()
                .flatMap(width -> IntStream.of(SPLITS).mapToObj(split -> new HopperBackwardTile(width, split)));
    }

    /**
     * Returns the estimated time in µs: that of the longest block or, if longer, that of all work spread evenly over
     * the multiprocessors.
     */
    private double time(long heads, long queries, long keys, boolean causal, int multiprocessors) {
        long tiles = IntegerMath.ceilDiv(keys, KEYS);
        long blocks = IntegerMath.ceilDiv(queries, queries());
        double fixed = FIXED + (split == 1 ? 0 : GATHER + GATHER_COLUMN * width * (split - 1));
        double longest = fixed + IntegerMath.ceilDiv(blocks, split) * stepTime();
        double all = heads * (tiles * split * fixed + steps(tiles, blocks, causal) * stepTime());
        return Math.max(longest, all / multiprocessors * (split == 4 ? CLUSTER_OF_4_OVERHEAD : 1));
    }

    /** Returns the number of pairs of a tile of keys and a block of queries. */
    private long steps(long tiles, long blocks, boolean causal) {
        if (!causal) {
            return tiles * blocks;
        }
        // blocks of queries that each tile skips in addition to those of the previous one
        long skipped = KEYS / queries();
        long attended = Math.min(tiles, IntegerMath.ceilDiv(blocks, skipped));
        return attended * blocks - skipped * attended * (attended - 1) / 2;
    }

    /** Returns the time of a step in µs. */
    private double stepTime() {
        return switch (width) {
            case 16 -> 1.5;
            case 32 -> 1.9;
            case 64 -> 2.2;
            case 80 -> 1.75; // from here on half as many queries
            default -> 2.1;
        };
    }

    /** Returns the number of queries in a step. Each consumer then has one chunk of dQ, of 64 queries. */
    public int queries() {
        return width > BOX ? BOX : CONSUMERS * BOX;
    }

    /** Returns the tile sizes of the kernels before and after the main kernel. */
    public FlashRows rows(DType type) {
        return new FlashRows(type, width, queries());
    }

    /**
     * Returns the number of heads that are processed together: their Q, dO and fp32 sums of dQ fit into half of L2.
     *
     * @param l2Bytes size of the GPU's L2 cache
     */
    int headGroup(long queries, long l2Bytes) {
        long bytes = queries * width * (2 + 2 + Float.BYTES);
        return (int) Math.max(1, Math.min(Integer.MAX_VALUE, l2Bytes / 2 / bytes));
    }

    /** Returns the dynamic shared memory of a block, in bytes. */
    public int sharedBytes() {
        int rowBytes = (width > BOX ? 2 : 1) * BOX * ELEMENT_BYTES;
        int inputs = (2 * KEYS + 2 * STAGES * queries()) * rowBytes;
        int dS = 2 * KEYS * queries() * ELEMENT_BYTES;
        int dQ = queries() * width * Float.BYTES;
        int statistics = STAGES * 2 * queries() * Float.BYTES;
        int barriers = 1 + 2 * STAGES + 4 * CONSUMERS;
        return inputs + dS + dQ + statistics + barriers * BARRIER_BYTES;
    }

    /** Returns the macros that the kernel is compiled with. */
    public Map<String, Object> defines(DType type) {
        Map<String, Object> defines = new LinkedHashMap<>();
        defines.put("ELEMENT", RowLayout.cudaName(type));
        defines.put("WIDTH", width);
        defines.put("QUERIES", queries());
        defines.put("SPLIT", split);
        return defines;
    }
}
