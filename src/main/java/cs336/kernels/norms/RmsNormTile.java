package cs336.kernels.norms;

import cs336.kernels.runtime.RowLayout;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How the work of an RMSNorm kernel is laid out. The meaning of each number stands in {@code kernels/rmsnorm.cu}; which
 * numbers are taken, in {@link RmsNormTiles}.
 *
 * @param pass which kernel
 * @param rowThreads threads that share a row
 * @param blockRows rows that a block works on at a time
 * @param smBlocks blocks that shall fit into a multiprocessor
 * @param stages rows of each slot in shared memory; 1 for straight to registers
 * @param keepWeight whether the weight stays in registers
 * @param persistent whether as many blocks as run at once take all rows in turn; otherwise each block has its own rows,
 *     and the card starts the next block as soon as one ends
 */
public record RmsNormTile(
        Pass pass, int rowThreads, int blockRows, int smBlocks, int stages, boolean keepWeight, boolean persistent) {
    /** The kernels of {@code kernels/rmsnorm.cu}. */
    public enum Pass {
        FORWARD,
        BACKWARD,
        FORWARD_WIDE,
        BACKWARD_WIDE;

        public boolean isForward() {
            return this == FORWARD || this == FORWARD_WIDE;
        }

        public boolean isWide() {
            return this == FORWARD_WIDE || this == BACKWARD_WIDE;
        }

        public String kernel() {
            return isForward() ? "rmsnorm_forward" : "rmsnorm_backward";
        }
    }

    public int blockThreads() {
        return rowThreads * blockRows;
    }

    /** Dynamic shared memory of a block, in bytes. */
    public int sharedBytes(RowLayout layout) {
        if (pass.isWide() || stages == 1) return 0;
        int tensors = pass.isForward() ? 1 : 2;
        return stages * tensors * pieces(layout) * blockThreads() * layout.accessBytes();
    }

    /** Accesses of one thread to one row. */
    int pieces(RowLayout layout) {
        return (layout.accesses() + rowThreads - 1) / rowThreads;
    }

    RmsNormTile withStages(int stages) {
        return new RmsNormTile(pass, rowThreads, blockRows, smBlocks, stages, keepWeight, persistent);
    }

    public Map<String, Object> defines(RowLayout layout) {
        Map<String, Object> defines = new LinkedHashMap<>();
        defines.put(pass.name(), 1);
        defines.put("WIDTH", layout.width());
        defines.put("ELEMENT", RowLayout.cudaName(layout.type()));
        defines.put("GAIN", RowLayout.cudaName(layout.gainType()));
        defines.put("VECTOR", layout.vector());
        defines.put("ROW_THREADS", rowThreads);
        defines.put("BLOCK_ROWS", blockRows);
        defines.put("SM_BLOCKS", smBlocks);
        defines.put("STAGES", stages);
        defines.put("KEEP_WEIGHT", keepWeight ? 1 : 0);
        return defines;
    }
}
