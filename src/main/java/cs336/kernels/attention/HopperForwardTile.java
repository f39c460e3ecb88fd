package cs336.kernels.attention;

import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How Hopper's forward kernel lays out its work. The meaning of each number stands in
 * {@code kernels/flash_hopper_forward.cu}; which numbers are taken, in {@link HopperForwardTiles}.
 *
 * @param dimension 16, 32, 64 or 128
 * @param consumers warpgroups that compute
 * @param splitKeys whether they have the same queries, and each a share of the keys
 * @param cluster blocks that share a tile in the same way; 1 unless keys are split
 * @param keys in a block of keys
 * @param stages blocks of keys, and of values, in shared memory for each share of the keys
 */
public record HopperForwardTile(int dimension, int consumers, boolean splitKeys, int cluster, int keys, int stages) {
    public static final String FILE = "flash_hopper_forward.cu";
    public static final String KERNEL = "flash_hopper_forward";

    /** Rows of queries that a box of the copy engine has. */
    static final int BOX_ROWS = 64;

    /** Columns of a box: 128 bytes. */
    static final int BOX_COLUMNS = 64;

    private static final int WARPGROUP = 128;
    private static final int ELEMENT_BYTES = 2;
    private static final int Q_BUFFERS = 2;
    private static final int BARRIER_BYTES = 8;
    private static final int STATISTICS = 4; // numbers a thread

    /** Queries of a tile. */
    int queries() {
        return splitKeys ? BOX_ROWS : consumers * BOX_ROWS;
    }

    /** How many tiles attention has. */
    int tiles(int heads, int rows) {
        return Math.toIntExact(
                (long) heads * ((rows + queries() - 1) / queries())); // which also a kernel counts in 32 bits
    }

    /**
     * How many tiles are worked on at a time: larger clusters must lie within groups of multiprocessors, and leave
     * gaps.
     */
    int clusters(int multiprocessors) {
        return (cluster <= 2 ? multiprocessors : multiprocessors * 6 / 7) / cluster;
    }

    public int blockThreads() {
        return (1 + consumers) * WARPGROUP;
    }

    /** Dynamic shared memory of a block, in bytes. */
    public int sharedBytes() {
        int rowBytes = Math.max(dimension, BOX_COLUMNS) * ELEMENT_BYTES;
        int places = stages * (splitKeys ? consumers : 1);
        int partials = splitKeys ? (consumers - 1) * (dimension / 2 + STATISTICS) * WARPGROUP * Float.BYTES : 0;
        int barriers = 2 * Q_BUFFERS + 4 * places + 2;
        return (Q_BUFFERS * queries() + 2 * places * keys) * rowBytes + partials + barriers * BARRIER_BYTES;
    }

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
}
