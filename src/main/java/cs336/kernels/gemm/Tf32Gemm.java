package cs336.kernels.gemm;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.TensorMap;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import cs336.torch.MemoryScope;
import cs336.units.IntegerMath;
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
 * input, by {@code kernels/gemm_tf32.cu}, on Hopper GPUs; or a function of the result. Operands are rounded to TF32 (11
 * significant bits), as cuBLAS rounds them. Results are bitwise reproducible.
 *
 * @param epilogue the function
 */
public record Tf32Gemm(Epilogue epilogue) implements JavaOperator {
    public static final String FILE = "gemm_tf32.cu";
    public static final String KERNEL = "gemm_tf32";
    public static final int THREADS = 384;

    /** The numbers of columns of a tile for which the kernel is compiled. */
    public static final List<Integer> TILE_COLUMNS = List.of(96, 128, 160, 208, 256);

    private static final int BLOCK_ROWS = 128; // of a tile
    private static final int TILE_ROWS = LinearProblem.CLUSTER * BLOCK_ROWS;
    private static final int STAGE_DEPTH = 32;
    private static final int TILE_CYCLES = 4000; // beyond multiplying: the first stages arrive, the results are stored

    /**
     * The smallest fraction of the computed elements that belong to the result. The others are padding of tiles at the
     * border, or tiles that idle clusters could have computed.
     */
    private static final double LEAST_FILLED = 0.7;

    /** With more rows and several tiles per cluster, the kernel is faster than cuBLAS from {@link #LEAST_DEPTH} on. */
    private static final int FEW_ROWS = 512;

    private static final int LEAST_DEPTH = 1600;

    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final Map<Tf32GemmKey, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record Tf32GemmKey(Tf32Gemm gemm, int tileColumns, Device device) {}

    /**
     * Returns whether the kernel is faster than cuBLAS, by measurements on an H200 with 512 and 2,048 rows. With
     * several weights it must also be predicted to be as fast as separate calls of this kernel, if those are faster
     * than cuBLAS. With an epilogue it may be up to 10 % slower than cuBLAS, because it saves more by not storing the
     * results.
     */
    public boolean isFaster(LinearProblem problem, int multiprocessors) {
        if (problem.isEmpty()) {
            return false;
        }
        Optional<Integer> tile = fastestTile(problem, multiprocessors);
        return tile.isPresent()
                && isFasterThanCublas(problem, tile.get(), multiprocessors)
                && isFasterThanSeparateCalls(problem, tile.get(), multiprocessors);
    }

    private boolean isFasterThanCublas(LinearProblem problem, int tileColumns, int multiprocessors) {
        long waves = problem.waves(TILE_ROWS, tileColumns, multiprocessors);
        long clusters = LinearProblem.clusters(multiprocessors);
        double computed = (double) waves * clusters * TILE_ROWS * tileColumns;
        return problem.rows() * problem.allColumns() >= LEAST_FILLED * computed
                && (epilogue != Epilogue.NONE
                        || waves == 1
                        || problem.rows() <= FEW_ROWS
                        || problem.depth() >= LEAST_DEPTH);
    }

    private boolean isFasterThanSeparateCalls(LinearProblem problem, int tileColumns, int multiprocessors) {
        var one = new LinearProblem(problem.rows(), problem.columns(), problem.depth(), 1);
        int tileOfOne = fastestTile(one, multiprocessors).orElseThrow();
        return !new Tf32Gemm(Epilogue.NONE).isFasterThanCublas(one, tileOfOne, multiprocessors)
                || cycles(problem, tileColumns, multiprocessors)
                        <= problem.weights() * cycles(one, tileOfOne, multiprocessors);
    }

    /** Returns the columns of a tile with the shortest predicted time, unless no tile fits the weights. */
    private Optional<Integer> fastestTile(LinearProblem problem, int multiprocessors) {
        return TILE_COLUMNS.stream()
                .filter(tileColumns -> epilogue.canUseTiles(problem, tileColumns))
                .min(Comparator.comparing(tileColumns -> cycles(problem, tileColumns, multiprocessors)));
    }

    /**
     * Returns the predicted time in clock cycles. A stage takes as long as shared memory needs for its 128 · (128 + c)
     * bytes from TMA and the 256 · (64 + c) bytes that the two warpgroups read, at 128 bytes per cycle. The tensor
     * cores need 4 · c cycles; with 256 columns, 9 / 8 of that were measured.
     */
    private static long cycles(LinearProblem problem, int tileColumns, int multiprocessors) {
        long stage = Math.max(256 + 3L * tileColumns, tileColumns == 256 ? 1152 : 0);
        return problem.waves(TILE_ROWS, tileColumns, multiprocessors)
                * (IntegerMath.ceilDiv(problem.depth(), STAGE_DEPTH) * stage + TILE_CYCLES);
    }

    /** Returns the macros to compile the kernel with. */
    public Map<String, Object> defines(int tileColumns) {
        return Map.of(
                "EPILOGUE", epilogue.name(),
                "COLUMNS", tileColumns,
                "STAGES", layout(tileColumns).stages(),
                "THREADS", THREADS,
                "SHARED_BYTES", sharedBytes(tileColumns));
    }

    private static SharedMemoryLayout layout(int tileColumns) {
        return new SharedMemoryLayout((BLOCK_ROWS + tileColumns) * STAGE_DEPTH * Float.BYTES, 1, 0);
    }

    /** Returns the dynamic shared memory of a block, in bytes. */
    public static int sharedBytes(int tileColumns) {
        return layout(tileColumns).bytes();
    }

    /**
     * Returns whether the kernel supports a matrix: fp32, and contiguous rows that are aligned to 16 bytes.
     *
     * @param shape rows and columns
     * @param strides in elements, like the offset; see {@link Fp32Gemm#supports}
     */
    public static boolean supports(DType type, long[] shape, long[] strides, long offset) {
        return type == DType.FLOAT32 && GemmOperands.areRowsAligned(type, shape, strides, offset);
    }

    @Override
    public String name() {
        return epilogue.name(KERNEL);
    }

    /**
     * Multiplies; on the CPU, by PyTorch's matrix multiplication in fp32.
     *
     * @param inputs X [M, K] and up to {@value LinearProblem#MOST_WEIGHTS} Wᵢ [N, K], fp32; the kernel
     *     {@link #supports} all of them and a result [M, N]. GELU has one Wᵢ, SwiGLU two; otherwise, for several Wᵢ, N
     *     is a multiple of one of {@link #TILE_COLUMNS}
     * @return the results side by side, [M, N · weights], or the value of the epilogue, [M, N], contiguous
     */
    @Override
    public Tensor[] compute(Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            Tensor x = inputs[0];
            Tensor[] weights = Arrays.copyOfRange(inputs, 1, inputs.length);
            Tensor product;
            if (x.is_cuda()) {
                int multiprocessors = Gpu.of(x).multiprocessors();
                int tileColumns = fastestTile(LinearProblem.of(x, weights), multiprocessors)
                        .orElseThrow();
                product = onGpu(tileColumns, x, weights);
            } else {
                product =
                        epilogue.of(x.mm(torch.cat(new TensorVector(weights), 0).t()));
            }
            return new Tensor[] {scope.escape(product)};
        }
    }

    /** Multiplies like {@link #compute} on a GPU, in tiles with this number of columns. */
    Tensor onGpu(int tileColumns, Tensor x, Tensor... weights) {
        Gpu gpu = Gpu.of(x);
        LinearProblem problem = LinearProblem.of(x, weights);
        int columns = Math.toIntExact(problem.allColumns());
        Tensor product = gpu.empty(problem.rows(), epilogue.columns(problem));
        TensorMap[] maps = Arrays.stream(weights)
                .map(weight -> map(weight, tileColumns / LinearProblem.CLUSTER))
                .toArray(TensorMap[]::new);
        KERNELS.computeIfAbsent(new Tf32GemmKey(this, tileColumns, gpu.device()), Tf32Gemm::load)
                .launch(
                        problem.grid(TILE_ROWS, tileColumns, gpu.multiprocessors()),
                        new BlockDim(THREADS),
                        sharedBytes(tileColumns),
                        map(x, BLOCK_ROWS),
                        maps[0],
                        maps[Math.min(1, maps.length - 1)],
                        maps[maps.length - 1],
                        product,
                        Math.toIntExact(problem.rows()),
                        columns,
                        Math.toIntExact(problem.columns()),
                        Math.toIntExact(problem.depth()));
        return product;
    }

    private static Kernel load(Tf32GemmKey key) {
        return KernelModule.load(SOURCE, key.gemm.defines(key.tileColumns), key.device)
                .kernel(KERNEL);
    }

    private static TensorMap map(Tensor x, int rows) {
        return TensorMap.roundedToTf32(TensorMap.reachable(x), 1, 1, rows, STAGE_DEPTH);
    }
}
