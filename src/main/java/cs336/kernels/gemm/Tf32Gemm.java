package cs336.kernels.gemm;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.TensorMap;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import cs336.torch.MemoryScope;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * The TF32 matrix multiplication X · [W₁; W₂; W₃]ᵀ of the forward pass of one to three linear layers with a common
 * input, by {@code kernels/gemm_tf32.cu}, on Hopper GPUs. Operands are rounded to TF32 (11 significant bits), as cuBLAS
 * rounds them. Results are bitwise reproducible.
 */
public record Tf32Gemm() implements JavaOperator {
    public static final String FILE = "gemm_tf32.cu";
    public static final String KERNEL = "gemm_tf32";
    public static final int THREADS = 384;
    public static final int MOST_WEIGHTS = 3;

    /** The columns of a tile for which the kernel is compiled. */
    public static final List<Integer> TILE_COLUMNS = List.of(96, 128, 160, 208, 256);

    private static final int CLUSTER = 2; // blocks
    private static final int BLOCK_ROWS = 128; // of a tile
    private static final int TILE_ROWS = CLUSTER * BLOCK_ROWS;
    private static final int STAGE_DEPTH = 32;
    private static final int MOST_STAGES = 6; // in shared memory
    private static final int BLOCK_SHARED_BYTES = 227 * 1024; // of Hopper
    private static final int SWIZZLE_ALIGNMENT = 1024;
    private static final int BARRIER_BYTES = 16; // per stage
    private static final int TILE_CYCLES = 4000; // beyond multiplying: the first stages arrive, the results are stored

    /** The smallest fraction of the tensor cores' time that counts for the result. */
    private static final double LEAST_FILLED = 0.7;

    /** With more rows, cuBLAS was faster for several tiles per cluster of less depth than {@link #LEAST_DEPTH}. */
    private static final int FEW_ROWS = 512;

    private static final int LEAST_DEPTH = 1600;

    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final Map<Tf32GemmKey, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record Tf32GemmKey(int tileColumns, Device device) {}

    /**
     * A matrix multiplication.
     *
     * @param rows rows of X
     * @param columns rows of each W
     * @param depth columns of X
     * @param weights number of W
     */
    public record Tf32Problem(long rows, long columns, long depth, int weights) {
        private long tiles(int tileColumns) {
            return GemmOperands.divideUp(rows, TILE_ROWS) * GemmOperands.divideUp(columns * weights, tileColumns);
        }

        /** Returns the largest number of tiles that a cluster computes. */
        private long rounds(int tileColumns, int multiprocessors) {
            return GemmOperands.divideUp(tiles(tileColumns), multiprocessors / CLUSTER);
        }

        /**
         * Returns the predicted time in clock cycles. A stage takes as long as shared memory needs for its 128 · (128 +
         * c) bytes from TMA and the 256 · (64 + c) bytes that the two warpgroups read, at 128 bytes per cycle. The
         * tensor cores need 4 · c cycles; with 256 columns, 9 / 8 of that were measured.
         */
        private long cycles(int tileColumns, int multiprocessors) {
            long stage = Math.max(256 + 3L * tileColumns, tileColumns == 256 ? 1152 : 0);
            return rounds(tileColumns, multiprocessors)
                    * (GemmOperands.divideUp(depth, STAGE_DEPTH) * stage + TILE_CYCLES);
        }

        /** Returns the columns of a tile with the shortest predicted time, unless no tile fits the weights. */
        private Optional<Integer> fastestTile(int multiprocessors) {
            return TILE_COLUMNS.stream()
                    .filter(tileColumns -> weights == 1 || columns % tileColumns == 0)
                    .min(Comparator.comparing(tileColumns -> cycles(tileColumns, multiprocessors)));
        }

        /** Returns whether the kernel is faster than cuBLAS, by comparisons on an H200 with 512 and 2,048 rows. */
        public boolean isFaster(int multiprocessors) {
            return fastestTile(multiprocessors)
                    .filter(tileColumns -> {
                        long rounds = rounds(tileColumns, multiprocessors);
                        double computed = (double) rounds * (multiprocessors / CLUSTER) * TILE_ROWS * tileColumns;
                        return rows * columns * weights >= LEAST_FILLED * computed
                                && (rounds == 1 || rows <= FEW_ROWS || depth >= LEAST_DEPTH);
                    })
                    .isPresent();
        }

        /** Returns whether this multiplication takes less time than one for each weight, by the predicted times. */
        public boolean isFasterThanSeparateOnes(int multiprocessors) {
            var one = new Tf32Problem(rows, columns, depth, 1);
            return fastestTile(multiprocessors)
                    .filter(tile -> !one.isFaster(multiprocessors)
                            || cycles(tile, multiprocessors)
                                    <= weights
                                            * one.cycles(
                                                    one.fastestTile(multiprocessors)
                                                            .orElseThrow(),
                                                    multiprocessors))
                    .isPresent();
        }
    }

    /** Returns the macros to compile the kernel with. */
    public static Map<String, Object> defines(int tileColumns) {
        return Map.of(
                "COLUMNS",
                tileColumns,
                "STAGES",
                stages(tileColumns),
                "THREADS",
                THREADS,
                "SHARED_BYTES",
                sharedBytes(tileColumns));
    }

    private static int stageBytes(int tileColumns) {
        return (BLOCK_ROWS + tileColumns) * STAGE_DEPTH * Float.BYTES + BARRIER_BYTES;
    }

    private static int stages(int tileColumns) {
        return Math.min(MOST_STAGES, (BLOCK_SHARED_BYTES - SWIZZLE_ALIGNMENT) / stageBytes(tileColumns));
    }

    /** Returns the dynamic shared memory of a block. */
    public static int sharedBytes(int tileColumns) {
        return SWIZZLE_ALIGNMENT + stages(tileColumns) * stageBytes(tileColumns);
    }

    /** Returns whether the kernel runs on this GPU: one of the Hopper architecture. */
    public static boolean runsOn(Gpu gpu) {
        return gpu.architecture().major() == 9 && gpu.blockSharedBytes() >= BLOCK_SHARED_BYTES;
    }

    /** Returns whether the kernel supports an operand: its rows are contiguous and aligned to 16 bytes. */
    public static boolean supports(long[] shape, long[] strides, long offset) {
        return strides[1] == 1 && GemmOperands.areLinesAligned(DType.FLOAT32, shape, strides, offset);
    }

    @Override
    public String name() {
        return KERNEL;
    }

    /**
     * Multiplies; on the CPU, by PyTorch's matrix multiplication in fp32.
     *
     * @param inputs X [M, K] and up to {@value #MOST_WEIGHTS} Wᵢᵀ [K, N], fp32; the kernel {@link #supports} X and each
     *     Wᵢ, and N is a multiple of 4, for several Wᵢ also of {@link #TILE_COLUMNS the columns of a tile}
     * @return the products next to each other, [M, N · weights], contiguous
     */
    @Override
    public Tensor[] compute(Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            Tensor x = inputs[0];
            Tensor[] weights = Arrays.copyOfRange(inputs, 1, inputs.length);
            Tensor product = x.is_cuda() ? onGpu(x, weights) : x.mm(torch.cat(new TensorVector(weights), 1));
            return new Tensor[] {scope.escape(product)};
        }
    }

    private static Tensor onGpu(Tensor x, Tensor[] weights) {
        var problem = new Tf32Problem(x.size(0), weights[0].size(1), x.size(1), weights.length);
        return onGpu(problem.fastestTile(Gpu.of(x).multiprocessors()).orElseThrow(), x, weights);
    }

    /** Multiplies like {@link #compute} in tiles with so many columns. */
    static Tensor onGpu(int tileColumns, Tensor x, Tensor... weights) {
        Gpu gpu = Gpu.of(x);
        var problem = new Tf32Problem(x.size(0), weights[0].size(1), x.size(1), weights.length);
        int columns = Math.toIntExact(problem.columns * problem.weights);
        Tensor product = gpu.empty(problem.rows, columns);
        long clusters = Math.min(problem.tiles(tileColumns), gpu.multiprocessors() / CLUSTER);
        KERNELS.computeIfAbsent(new Tf32GemmKey(tileColumns, gpu.device()), Tf32Gemm::load)
                .launch(
                        new GridDim(Math.toIntExact(clusters * CLUSTER)),
                        new BlockDim(THREADS),
                        sharedBytes(tileColumns),
                        map(x, BLOCK_ROWS),
                        map(weights[0].t(), tileColumns / CLUSTER),
                        map(weights[Math.min(1, weights.length - 1)].t(), tileColumns / CLUSTER),
                        map(weights[weights.length - 1].t(), tileColumns / CLUSTER),
                        product,
                        Math.toIntExact(problem.rows),
                        columns,
                        Math.toIntExact(problem.columns),
                        Math.toIntExact(problem.depth));
        return product;
    }

    private static Kernel load(Tf32GemmKey key) {
        return KernelModule.load(SOURCE, defines(key.tileColumns), key.device).kernel(KERNEL);
    }

    private static TensorMap map(Tensor x, int rows) {
        return TensorMap.roundedToTf32(GemmOperands.aligned(x), 1, 1, rows, STAGE_DEPTH);
    }
}
