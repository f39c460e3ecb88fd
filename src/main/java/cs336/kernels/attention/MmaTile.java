package cs336.kernels.attention;

import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.Occupancy;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The tile sizes of a kernel of {@link MmaFlash}; {@code kernels/mma.cuh} and {@code kernels/flash_mma_forward.cu}
 * explain each number, and {@link MmaTileTable} selects them.
 *
 * @param kernel the kernel
 * @param type dtype of the elements
 * @param products tensor-core multiplications per multiplication (macro PRODUCTS): 3 for fp32 as sums of two TF32
 *     numbers, otherwise 1
 * @param width elements in a row
 * @param rowWarps warps of a block along the rows; each has separate rows
 * @param columnWarps warps of a block along the columns; they share rows, and each has separate columns
 * @param rowTiles rows of a warp, in units of 16
 * @param columns columns of a warp in a tile
 * @param smBlocks blocks that must fit on a multiprocessor concurrently
 */
public record MmaTile(
        MmaKernel kernel,
        DType type,
        int products,
        int width,
        int rowWarps,
        int columnWarps,
        int rowTiles,
        int columns,
        int smBlocks) {
    private static final int PADDING = 16; // bytes between rows in shared memory, against bank conflicts
    private static final int STAGES = 2; // tiles in shared memory: the current one, and the next one being loaded

    /** The kernels. A block of the first two owns queries, a block of the third owns keys. */
    public enum MmaKernel {
        FORWARD("flash_mma_forward.cu", "flash_mma_forward", 1),
        QUERIES("flash_mma_backward.cu", "flash_mma_queries", 2),
        KEYS("flash_mma_backward.cu", "flash_mma_keys", 2);

        private final String file;
        private final String function;
        private final int ownedTensors;

        MmaKernel(String file, String function, int ownedTensors) {
            this.file = file;
            this.function = function;
            this.ownedTensors = ownedTensors;
        }

        /** Returns the source file. */
        public String file() {
            return file;
        }

        /** Returns the name of the {@code __global__} function. */
        public String function() {
            return function;
        }
    }

    /** Returns the number of threads in a block. */
    public int threads() {
        return rowWarps * columnWarps * 32;
    }

    /** Returns the number of rows of a block. */
    int rows() {
        return rowWarps * rowTiles * 16;
    }

    /** Returns the dynamic shared memory of a block, in bytes. */
    public int sharedBytes() {
        int tile = columnWarps * columns;
        int tensorRows = kernel.ownedTensors * rows() + STAGES * 2 * tile;
        int statistics = kernel == MmaKernel.KEYS ? STAGES * 2 * tile * Float.BYTES : 0;
        return tensorRows * (width * type.bytes() + PADDING) + statistics;
    }

    /**
     * Returns this tile adapted to the shared memory of an architecture: with fewer concurrent blocks and, if not even
     * one fits, with smaller blocks.
     */
    MmaTile fitting(GpuArchitecture architecture) {
        int shared = Occupancy.sharedBytes(architecture);
        MmaTile tile = this;
        while (tile.sharedBytes() + Occupancy.SHARED_OF_SYSTEM > shared) {
            tile = tile.smaller();
        }
        int blocks = shared / (tile.sharedBytes() + Occupancy.SHARED_OF_SYSTEM);
        return tile.smBlocks <= blocks ? tile : tile.with(tile.rowWarps, tile.columnWarps, tile.columns, blocks);
    }

    private MmaTile smaller() {
        if (columns > 32) { // its tiles of the other tensors take most of the shared memory
            return with(rowWarps, columnWarps, columns / 2, smBlocks);
        }
        if (rowWarps > 1) {
            return with(rowWarps / 2, columnWarps, columns, smBlocks);
        }
        if (columnWarps > 1) {
            return with(rowWarps, columnWarps / 2, columns, smBlocks);
        }
        return with(rowWarps, columnWarps, columns / 2, smBlocks);
    }

    private MmaTile with(int rowWarps, int columnWarps, int columns, int smBlocks) {
        return new MmaTile(kernel, type, products, width, rowWarps, columnWarps, rowTiles, columns, smBlocks);
    }

    /** Returns the macros that the kernel is compiled with. */
    public Map<String, Object> defines() {
        Map<String, Object> defines = new LinkedHashMap<>();
        if (kernel != MmaKernel.FORWARD) {
            defines.put(kernel.name(), 1);
        }
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
