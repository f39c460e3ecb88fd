package cs336.kernels.attention;

import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.Occupancy;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How the work of a kernel of {@link MmaFlash} is laid out. The meaning of each number stands in
 * {@code kernels/mma.cuh} and {@code kernels/flash_mma_forward.cu}; which numbers are taken, in {@link MmaTileTable}.
 *
 * @param pass which kernel
 * @param type of the elements
 * @param products of tensor cores for each product: 3 for fp32 as sums of two TF32, else 1
 * @param width elements in a row
 * @param rowWarps warps of a block one below the other, each with rows of its own
 * @param columnWarps warps side by side that share rows, each with columns of its own
 * @param rowTiles rows of a warp, in sixteens
 * @param columns of a warp in a tile
 * @param smBlocks blocks that shall fit into a multiprocessor
 */
public record MmaTile(
        Pass pass,
        DType type,
        int products,
        int width,
        int rowWarps,
        int columnWarps,
        int rowTiles,
        int columns,
        int smBlocks) {
    private static final int PADDING = 16; // bytes between rows in shared memory
    private static final int STAGES = 2; // tiles in shared memory: one in use, the next on its way

    /** The kernels. A block of the first two owns queries, one of the third keys. */
    public enum Pass {
        FORWARD("flash_mma_forward.cu", "flash_mma_forward", 1),
        QUERIES("flash_mma_backward.cu", "flash_mma_queries", 2),
        KEYS("flash_mma_backward.cu", "flash_mma_keys", 2);

        private final String file;
        private final String kernel;
        private final int ownedTensors;

        Pass(String file, String kernel, int ownedTensors) {
            this.file = file;
            this.kernel = kernel;
            this.ownedTensors = ownedTensors;
        }

        public String file() {
            return file;
        }

        public String kernel() {
            return kernel;
        }
    }

    public int threads() {
        return rowWarps * columnWarps * 32;
    }

    /** Rows of a block. */
    int rows() {
        return rowWarps * rowTiles * 16;
    }

    /** Dynamic shared memory of a block, in bytes. */
    public int sharedBytes() {
        int tile = columnWarps * columns;
        int tensorRows = pass.ownedTensors * rows() + STAGES * 2 * tile;
        int statistics = pass == Pass.KEYS ? STAGES * 2 * tile * Float.BYTES : 0;
        return tensorRows * (width * type.bytes() + PADDING) + statistics;
    }

    /**
     * The same for a card with less shared memory: fewer blocks at a time and, where not even one fits, smaller ones.
     */
    MmaTile fitting(GpuArchitecture architecture) {
        int shared = Occupancy.sharedBytes(architecture);
        MmaTile tile = this;
        while (tile.sharedBytes() + Occupancy.SHARED_OF_SYSTEM > shared) tile = tile.smaller();
        int blocks = shared / (tile.sharedBytes() + Occupancy.SHARED_OF_SYSTEM);
        return tile.smBlocks <= blocks ? tile : tile.with(tile.rowWarps, tile.columnWarps, tile.columns, blocks);
    }

    private MmaTile smaller() {
        if (rowWarps > 1) return with(rowWarps / 2, columnWarps, columns, smBlocks);
        if (columnWarps > 1) return with(rowWarps, columnWarps / 2, columns, smBlocks);
        return with(rowWarps, columnWarps, columns / 2, smBlocks);
    }

    private MmaTile with(int rowWarps, int columnWarps, int columns, int smBlocks) {
        return new MmaTile(pass, type, products, width, rowWarps, columnWarps, rowTiles, columns, smBlocks);
    }

    public Map<String, Object> defines() {
        Map<String, Object> defines = new LinkedHashMap<>();
        if (pass != Pass.FORWARD) defines.put(pass.name(), 1);
        defines.put("ELEMENT", RowLayout.cudaName(type));
        defines.put("PRODUCTS", products);
        defines.put("HEAD_DIM", width);
        defines.put("ROW_WARPS", rowWarps);
        defines.put("COLUMN_WARPS", columnWarps);
        defines.put("ROW_TILES", rowTiles);
        defines.put("COLUMNS", columns);
        defines.put("SM_BLOCKS", smBlocks);
        return defines;
    }
}
