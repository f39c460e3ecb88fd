package cs336.kernels.norms;

import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import cs336.units.IntegerMath;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The tile of an RMSNorm kernel: the number of threads per row, the number of rows that a block processes at once, and
 * the place of the data in registers or shared memory. {@code kernels/rmsnorm.cu} explains each of the numbers;
 * {@link #forward} and {@link #backward} choose them for a row layout.
 *
 * <p>Registers limit the choice. A register holds four bytes, and a thread has at most 128 of them with 512 threads per
 * multiprocessor, 64 with 1024. This bounds the fraction of a row that one thread can hold.
 *
 * @param pass the kernel
 * @param rowThreads threads per row
 * @param blockRows rows that a block processes at a time
 * @param smBlocks blocks per multiprocessor that the compiler must leave registers for
 * @param stages rows that each slot of a block buffers in shared memory; 1 loads rows directly into registers
 * @param keepWeight whether a thread keeps its elements of the weight in registers for all rows
 * @param persistent whether the grid has only as many blocks as are resident at once, which iterate over all rows;
 *     otherwise each block processes {@code blockRows} rows and ends
 * @param reload whether a row is loaded a second time for its results, with hints for L2; only in the forward pass,
 *     without buffers
 */
public record RmsNormTile(
        RmsNormPass pass,
        int rowThreads,
        int blockRows,
        int smBlocks,
        int stages,
        boolean keepWeight,
        boolean persistent,
        boolean reload) {
    private static final int BLOCK = 256;
    private static final int NARROW_BLOCK = 128; // one row of 1,024 or 2,048 16-bit elements
    private static final int MIN_ASYNC_COPY_BYTES = 4; // of cp.async
    private static final int RELOADED_ACCESSES = 2; // per thread and row, before more threads load a row twice
    private static final int MAX_RELOADED_ACCESSES = 4;
    private static final int MAX_RELOADING_BLOCK = 512; // larger blocks are slower
    private static final int RELOADING_SM_BLOCKS = 4;

    /** The kernels of {@code kernels/rmsnorm.cu}. The wide ones are for rows that do not fit into registers. */
    public enum RmsNormPass {
        FORWARD,
        BACKWARD,
        FORWARD_WIDE,
        BACKWARD_WIDE;

        /** Returns whether this is a forward kernel. */
        public boolean isForward() {
            return this == FORWARD || this == FORWARD_WIDE;
        }

        /** Returns whether this kernel reads each row twice instead of keeping it in registers. */
        public boolean isWide() {
            return this == FORWARD_WIDE || this == BACKWARD_WIDE;
        }

        /** Returns the name of the {@code __global__} function. */
        public String kernel() {
            return isForward() ? "rmsnorm_forward" : "rmsnorm_backward";
        }
    }

    /** Returns the tile of the forward pass. */
    public static RmsNormTile forward(RowLayout layout) {
        int rowThreads = rowThreads(layout, 16, 1024);
        if (layout.accessBytes() == 16 && rowThreads > 256) {
            // 64 bytes in flight per thread saturate memory. Larger blocks would leave registers for fewer bytes.
            rowThreads = rowThreads(layout, 64 / layout.type().bytes(), 1024);
        }
        if (elements(layout, rowThreads)
                > 16 * (layout.accessBytes() < 16 ? 1 : 4 / layout.type().bytes())) {
            return wide(RmsNormPass.FORWARD_WIDE, 1024);
        }
        int block = Math.max(BLOCK, rowThreads);
        if (layout.type().bytes() < Float.BYTES
                && layout.accessBytes() == 16
                && rowThreads >= NARROW_BLOCK / 2
                && rowThreads <= NARROW_BLOCK) {
            rowThreads = NARROW_BLOCK;
            block = NARROW_BLOCK;
        }
        boolean keepWeight = false;
        boolean persistent = false;
        return new RmsNormTile(
                RmsNormPass.FORWARD, rowThreads, block / rowThreads, 1024 / block, 1, keepWeight, persistent, false);
    }

    /**
     * Returns the tile of the forward pass for tensors that are larger than the L2 cache. It loads a row twice if
     * accesses have 16 bytes, a row has at least {@value #NARROW_BLOCK} of them, and a thread has at most
     * {@value #MAX_RELOADED_ACCESSES}. Otherwise it is the tile of {@link #forward}.
     */
    public static RmsNormTile streaming(RowLayout layout) {
        RmsNormTile tile = forward(layout);
        int threads =
                Math.max(NARROW_BLOCK, rowThreads(layout, RELOADED_ACCESSES * layout.vector(), MAX_RELOADING_BLOCK));
        int accesses = accessesPerThread(layout, threads);
        boolean reload = !tile.pass.isWide()
                && layout.accessBytes() == 16
                && layout.accesses() >= NARROW_BLOCK
                && accesses <= MAX_RELOADED_ACCESSES;
        if (!reload) {
            return tile;
        }
        int smBlocks = 1024 / threads;
        if (accesses <= RELOADED_ACCESSES) {
            smBlocks = Math.max(smBlocks, RELOADING_SM_BLOCKS); // 32 registers suffice for 512 threads
        }
        return new RmsNormTile(RmsNormPass.FORWARD, threads, 1, smBlocks, 1, false, false, true);
    }

    /** Returns the tile of the backward pass. */
    public static RmsNormTile backward(RowLayout layout) {
        int rowThreads = rowThreads(layout, 8, 512);
        int elements = elements(layout, rowThreads);
        if (elements > 16) {
            return wide(RmsNormPass.BACKWARD_WIDE, 512);
        }
        int block = Math.max(BLOCK, rowThreads);
        // Two blocks of 512 threads leave 64 registers per thread. They suffice if every access has 16 bytes,
        // all threads of a row have the same number of elements, and the weight has the dtype of x.
        boolean lean = layout.accessBytes() == 16
                && layout.width() % (rowThreads * layout.vector()) == 0
                && layout.gainType() == layout.type();
        int smBlocks = elements > 8 ? 512 / block : block == BLOCK ? (lean ? 3 : 2) : (lean ? 2 : 1);
        boolean keepWeight = elements * layout.gainType().bytes() <= 64;
        int stages = layout.type() == DType.FLOAT32 || layout.accessBytes() < MIN_ASYNC_COPY_BYTES ? 1 : 2;
        return new RmsNormTile(
                RmsNormPass.BACKWARD, rowThreads, block / rowThreads, smBlocks, stages, keepWeight, true, false);
    }

    private static RmsNormTile wide(RmsNormPass pass, int threads) {
        return new RmsNormTile(pass, threads, 1, 1024 / threads, 1, false, true, false);
    }

    /**
     * Returns the smallest power of two, from one warp to {@code maxThreads}, that leaves each thread at most
     * {@code maxElements}.
     */
    private static int rowThreads(RowLayout layout, int maxElements, int maxThreads) {
        int threads = 32;
        while (threads < maxThreads && elements(layout, threads) > maxElements) {
            threads *= 2;
        }
        return threads;
    }

    /** Returns the number of elements of a row that each of its threads holds, rounded up to whole accesses. */
    private static int elements(RowLayout layout, int rowThreads) {
        return accessesPerThread(layout, rowThreads) * layout.vector();
    }

    private static int accessesPerThread(RowLayout layout, int rowThreads) {
        return IntegerMath.ceilDiv(layout.accesses(), rowThreads);
    }

    /** Returns the number of threads per block. */
    public int blockThreads() {
        return rowThreads * blockRows;
    }

    /** Returns the dynamic shared memory per block, in bytes. */
    public int sharedBytes(RowLayout layout) {
        if (pass.isWide() || stages == 1) {
            return 0;
        }
        int tensors = pass.isForward() ? 1 : 2;
        return stages * tensors * accessesPerThread(layout, rowThreads) * blockThreads() * layout.accessBytes();
    }

    RmsNormTile withStages(int stages) {
        return new RmsNormTile(pass, rowThreads, blockRows, smBlocks, stages, keepWeight, persistent, reload);
    }

    /** Returns the macros to compile the kernel with. */
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
        defines.put("RELOAD", reload ? 1 : 0);
        return defines;
    }
}
