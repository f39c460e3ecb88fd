package cs336.kernels.attention;

import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How Hopper's backward kernel lays out its work. The meaning of each number stands in
 * {@code kernels/flash_hopper_backward.cu}; which numbers are taken, in {@link HopperBackwardTiles}.
 *
 * @param width columns: 16, 32, 64 or 128
 * @param split blocks that share the queries of a tile of keys: 1, 2 or 4
 */
public record HopperBackwardTile(int width, int split) {
    public static final String FILE = "flash_hopper_backward.cu";
    public static final String KERNEL = "flash_hopper_backward";

    /** Of a tile. */
    static final int KEYS = 128;

    /** Rows and columns of a box in which the copy engine writes dK and dV. */
    static final int BOX = 64;

    public static final int THREADS = 384;

    private static final int STAGES = 2;
    private static final int CONSUMERS = 2;
    private static final int ELEMENT_BYTES = 2;
    private static final int BARRIER_BYTES = 8;

    /** In a block of queries: each consumer then has one chunk of dQ, 64 queries × 64 columns at most. */
    public int queries() {
        return width > BOX ? BOX : CONSUMERS * BOX;
    }

    /** Dynamic shared memory of a block, in bytes. */
    public int sharedBytes() {
        int rowBytes = Math.max(width, BOX) * ELEMENT_BYTES;
        int inputs = (2 * KEYS + 2 * STAGES * queries()) * rowBytes;
        int dS = 2 * KEYS * queries() * ELEMENT_BYTES;
        int dQ = queries() * width * Float.BYTES;
        int terms = STAGES * 2 * queries() * Float.BYTES;
        int barriers = 1 + 2 * STAGES + 4 * CONSUMERS;
        return inputs + dS + dQ + terms + barriers * BARRIER_BYTES;
    }

    public Map<String, Object> defines(DType type) {
        Map<String, Object> defines = new LinkedHashMap<>();
        defines.put("ELEMENT", RowLayout.cudaName(type));
        defines.put("WIDTH", width);
        defines.put("QUERIES", queries());
        defines.put("SPLIT", split);
        return defines;
    }
}
