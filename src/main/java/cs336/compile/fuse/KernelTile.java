package cs336.compile.fuse;

import cs336.kernels.runtime.Gpu;
import cs336.units.IntegerMath;
import java.util.ArrayList;
import java.util.List;

/**
 * The tile of a generated kernel: how its threads divide the rows and columns of a {@link FusionGroup}.
 *
 * @param rowThreads threads per row; in groups without a reduction over columns, threads per block
 * @param blockRows rows that a block computes at the same time
 * @param parts blocks that each store a partial sum of every column; 1 without sums over rows
 * @param smBlocks blocks per multiprocessor that the compiler must leave registers for; 1 leaves the registers to the
 *     compiler, without sums over rows
 * @param prefetch whether an asynchronous copy fetches the next row to shared memory while the block computes the
 *     current one; registers then keep the loads that are equal for all rows. Only with sums over rows
 * @param reload whether the last pass over a row loads its elements again instead of keeping them in registers; both
 *     loads then tell L2 which lines to keep. Only with a reduction over columns and without sums over rows
 */
record KernelTile(int rowThreads, int blockRows, int parts, int smBlocks, boolean prefetch, boolean reload) {
    static final int COLUMN_THREADS = 32; // of a kernel that only sums over rows, for VEC columns each
    static final int MAX_BLOCK = 256;
    static final int SLOTS = MAX_BLOCK / COLUMN_THREADS;
    private static final int WARP = 32;
    private static final int MAX_ROW_THREADS = 1024;
    private static final int ROW_BLOCK = 128; // threads of a block, before a row needs more
    private static final int ROW_ACCESSES = 4; // of each thread to each tensor, before more threads compute a row
    private static final int ROW_ELEMENTS = 16; // the same, of narrow accesses
    private static final int MAX_ROW_ELEMENTS = 32; // more need too many registers
    private static final int ROW_BLOCK_ELEMENTS = 2048; // that all threads load at once; more are not faster (RMSNorm)
    private static final int RELOADED_ACCESSES = 2; // of each thread to each tensor that is loaded again, up to
    private static final int RELOADING_ROW_THREADS = 512; // so many threads; then ROW_ACCESSES
    private static final int MULTIPROCESSORS = 132;
    private static final int SM_THREADS = 2048;
    private static final int MAX_SM_BLOCKS = 4;
    private static final int COLUMN_BLOCKS = 4 * MULTIPROCESSORS; // of a kernel that only sums over rows
    private static final int SUMMING_SM_BLOCKS = 3; // of a kernel with rows and sums over rows
    private static final int SUMMING_SM_THREADS = 512; // of such a kernel: 128 registers each
    private static final int WIDE_SUMMING_SM_THREADS = 384; // of one with over ROW_ELEMENTS a thread: 168 registers

    /**
     * Returns the tile that a group gets without a {@linkplain cs336.kernels.runtime.TileSearch search}.
     *
     * @param canReload whether a reduction and the last pass read the same elements
     */
    static KernelTile of(FusionGroup group, int vector, boolean canReload) {
        if (group.isPerColumn()) {
            return ofColumns(group, vector, COLUMN_BLOCKS);
        }
        if (!group.hasReduction()) {
            return new KernelTile(MAX_BLOCK, 1, 1, 1, false, false);
        }
        int threads = WARP;
        while (threads < MAX_ROW_THREADS && elements(group, threads) > Math.max(ROW_ELEMENTS, ROW_ACCESSES * vector)) {
            threads *= 2;
        }
        if (!group.hasColumnSums()) {
            long accesses = group.columns() / vector;
            threads = accesses >= ROW_BLOCK ? Math.max(ROW_BLOCK, threads) : threads;
            boolean reload = canReload && inputBytes(group) > Gpu.STREAM_BYTES;
            while (threads < MAX_ROW_THREADS
                    && (reload
                            ? accesses > (threads < RELOADING_ROW_THREADS ? RELOADED_ACCESSES : ROW_ACCESSES) * threads
                            : accesses >= ROW_ACCESSES * threads && threads * vector < ROW_BLOCK_ELEMENTS)) {
                threads *= 2; // fewer registers each, so that more loads are in flight
            }
            int smBlocks = reload ? reloadingSmBlocks(group, threads) : 1;
            return ofRows(group, threads, ROW_BLOCK, smBlocks, false, reload);
        }
        int smThreads = elements(group, threads) > ROW_ELEMENTS ? WIDE_SUMMING_SM_THREADS : SUMMING_SM_THREADS;
        int fitting = smThreads / Math.max(ROW_BLOCK, threads);
        if (fitting <= 1 && elements(group, threads) > ROW_ELEMENTS) { // one block of 16-bit rows hides no latency
            return ofRows(group, MAX_ROW_THREADS, ROW_BLOCK, 1, true, false);
        }
        int smBlocks = Math.max(1, Math.min(SUMMING_SM_BLOCKS, fitting));
        return ofRows(group, threads, ROW_BLOCK, smBlocks, false, false);
    }

    /**
     * Returns the blocks per multiprocessor of a kernel that reloads rows. One row and one reduction fit into the
     * registers that several blocks leave; more could spill. Blocks of 512 threads are not faster this way.
     */
    private static int reloadingSmBlocks(FusionGroup group, int threads) {
        long rowInputs = group.inputs().stream()
                .filter(input -> input.layout().elements() == group.rows() * group.columns())
                .count();
        long reductions = group.members().stream()
                .filter(member -> member.operator() instanceof ReductionOperator)
                .count();
        boolean several = rowInputs == 1 && reductions == 1 && threads < RELOADING_ROW_THREADS;
        return several ? SM_THREADS / 2 / Math.max(ROW_BLOCK, threads) : 1;
    }

    /** Returns the tiles to compare in a search. */
    static List<KernelTile> candidates(FusionGroup group, int vector, boolean canReload) {
        List<KernelTile> candidates = new ArrayList<>();
        if (group.isPerColumn()) {
            for (int blocks = MULTIPROCESSORS; blocks <= 8 * MULTIPROCESSORS; blocks *= 2) {
                candidates.add(ofColumns(group, vector, blocks));
            }
        } else if (!group.hasReduction()) {
            for (int block = MAX_BLOCK / 2; block <= 2 * MAX_BLOCK; block *= 2) {
                candidates.add(new KernelTile(block, 1, 1, 1, false, false));
            }
        } else {
            for (int threads = WARP; threads <= MAX_ROW_THREADS; threads *= 2) {
                boolean isUsed = threads == WARP || group.columns() / vector > threads / 2;
                if (!isUsed || elements(group, threads) > Math.max(MAX_ROW_ELEMENTS, vector)) {
                    continue;
                }
                for (int block = Math.max(MAX_BLOCK / 2, threads); block <= Math.max(MAX_BLOCK, threads); block *= 2) {
                    int most = group.hasColumnSums() ? SM_THREADS / block : 1;
                    for (int smBlocks = 1; smBlocks <= Math.min(most, MAX_SM_BLOCKS); smBlocks++) {
                        candidates.add(ofRows(group, threads, block, smBlocks, false, false));
                        candidates.add(ofRows(group, threads, block, smBlocks, group.hasColumnSums(), canReload));
                    }
                }
            }
        }
        candidates.add(of(group, vector, canReload));
        return candidates.stream().distinct().toList();
    }

    /** Returns the same tile without the shared memory for rows. */
    KernelTile withoutPrefetch() {
        return new KernelTile(rowThreads, blockRows, parts, smBlocks, false, reload);
    }

    private static KernelTile ofRows(
            FusionGroup group, int threads, int block, int smBlocks, boolean prefetch, boolean reload) {
        int blockRows = (int) Math.min(Math.max(1, block / threads), group.rows());
        long blocks = IntegerMath.ceilDiv(group.rows(), blockRows);
        int parts = group.hasColumnSums() ? (int) Math.min(blocks, (long) smBlocks * MULTIPROCESSORS) : 1;
        return new KernelTile(threads, blockRows, parts, smBlocks, prefetch, reload);
    }

    private static KernelTile ofColumns(FusionGroup group, int vector, int blocks) {
        long tiles = IntegerMath.ceilDiv(group.columns() / vector, COLUMN_THREADS);
        long parts = Math.max(1, Math.min(blocks / tiles, IntegerMath.ceilDiv(group.rows(), SLOTS)));
        return new KernelTile(MAX_BLOCK, 1, (int) parts, 1, false, false);
    }

    private static long inputBytes(FusionGroup group) {
        return group.inputs().stream()
                .mapToLong(input -> input.layout().bytes())
                .sum();
    }

    /** Returns the elements of a row that each thread computes, rounded up. */
    private static long elements(FusionGroup group, int threads) {
        return IntegerMath.ceilDiv(group.columns(), threads);
    }
}
