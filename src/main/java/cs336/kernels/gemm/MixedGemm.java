package cs336.kernels.gemm;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.RowLayout;
import cs336.kernels.runtime.TensorMap;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import cs336.torch.MemoryScope;
import cs336.units.IntegerMath;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * The matrix multiplication X · [W₁; W₂; W₃]ᵀ of the forward pass of one to three linear layers with a common 16-bit
 * input and fp32 weights, by {@code kernels/gemm_mixed.cu}, on Hopper GPUs; or a function of the result, which is not
 * rounded before. The kernel rounds the weights to the dtype of X when it has loaded them, so that no cast of them is
 * stored. Results are bitwise reproducible on GPUs with the same number of multiprocessors, on which the order of sums
 * depends.
 *
 * @param epilogue the function
 */
public record MixedGemm(Epilogue epilogue) implements JavaOperator {
    public static final String FILE = "gemm_mixed.cu";
    public static final String KERNEL = "gemm_mixed";
    public static final int THREADS = 384;
    public static final String SUM_KERNEL = "gemm_mixed_sum";
    public static final int SUM_THREADS = 256;

    static final int TILE_COLUMNS = 128;
    private static final int BLOCK_ROWS = 256; // of a tile
    static final int TILE_ROWS = LinearProblem.CLUSTER * BLOCK_ROWS;
    static final int STAGE_DEPTH = 64;
    private static final int SUM_BLOCK_ROWS = 32; // of gemm_mixed_sum
    private static final int WEIGHT_DEPTH = 32; // 128 bytes
    private static final int STORED_COLUMNS = 64; // at a time, of a block's results
    private static final SharedMemoryLayout LAYOUT = new SharedMemoryLayout(
            (TILE_COLUMNS * Float.BYTES + BLOCK_ROWS * DType.BFLOAT16.bytes()) * STAGE_DEPTH,
            2,
            BLOCK_ROWS * STORED_COLUMNS * DType.BFLOAT16.bytes() + 3 * SharedMemoryLayout.BARRIER_BYTES);
    public static final int SHARED_BYTES = LAYOUT.bytes();

    // Clock cycles on an H200 at 1.7 GHz, for 512 and 2,048 rows of the models' matrices. STAGE_CYCLES and TILE_CYCLES
    // predict the kernel's time within 12 %. The others predict the time of casts and cuBLAS within 15 %.
    private static final double STAGE_CYCLES = 1280; // as the accesses to shared memory take
    private static final double TILE_CYCLES = 4500;
    private static final double SUM_CYCLES = 5100; // the launch that adds parts of tiles
    private static final double PART_CYCLES = 220; // per part, whose 256 KiB of sums are stored and read
    private static final double BYTE_CYCLES = 4.15e-4; // of memory traffic at 4.1 TB/s
    private static final int CAST_BYTES = 6; // per element of a weight
    private static final double MULTIPLY_CYCLES = 5.67e-6; // per multiply-add by cuBLAS, at 600 TFLOP/s
    private static final double LAUNCH_CYCLES = 5000; // additional launches of casts and cuBLAS
    private static final int H200_MULTIPROCESSORS = 132;

    /** Adding more parts of a tile would take longer than the shorter parts save. */
    private static final int MOST_PARTS = 8;

    /** The largest ratio of the predicted times at which the kernel is used; at 0.89 some sizes were no faster. */
    private static final double LARGEST_RATIO = 0.88;

    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final Map<MixedGemmKey, KernelModule> MODULES = new ConcurrentHashMap<>();

    private record MixedGemmKey(MixedGemm gemm, DType type, Device device) {}

    /**
     * Returns whether the kernel is predicted to be faster than a cast of the weights and cuBLAS, and a separate kernel
     * for the epilogue.
     */
    public boolean isFaster(LinearProblem problem, int multiprocessors) {
        if (problem.isEmpty() || !epilogue.canUseTiles(problem, TILE_COLUMNS)) {
            return false;
        }
        double cycles =
                cycles(problem, fastestDivision(problem, multiprocessors), LinearProblem.clusters(multiprocessors));
        double elements = (double) problem.allColumns() * problem.depth();
        double traffic = CAST_BYTES * elements + epilogue.savedBytes(problem, DType.BFLOAT16);
        double separate = BYTE_CYCLES * traffic + MULTIPLY_CYCLES * elements * problem.rows();
        return cycles < LARGEST_RATIO * (LAUNCH_CYCLES + separate * H200_MULTIPROCESSORS / multiprocessors);
    }

    static long tiles(LinearProblem problem) {
        return problem.tiles(TILE_ROWS, TILE_COLUMNS);
    }

    /** Returns the division of the tiles with the shortest predicted time. */
    static TileDivision fastestDivision(LinearProblem problem, int multiprocessors) {
        long clusters = LinearProblem.clusters(multiprocessors);
        long tiles = tiles(problem);
        long last = tiles % clusters;
        long mostParts = last == 0 ? 1 : Math.min(clusters / last, Math.min(stages(problem), MOST_PARTS));
        return IntStream.rangeClosed(1, (int) mostParts)
                .mapToObj(parts -> parts == 1 ? TileDivision.whole(tiles) : new TileDivision(tiles - last, last, parts))
                .min(Comparator.comparing(division -> cycles(problem, division, clusters)))
                .orElseThrow();
    }

    /** Returns the predicted time in clock cycles. */
    private static double cycles(LinearProblem problem, TileDivision division, long clusters) {
        long stages = stages(problem);
        double whole = IntegerMath.ceilDiv(division.wholeTiles(), clusters) * itemCycles(stages);
        return division.splitTiles() == 0
                ? whole
                : whole
                        + itemCycles(IntegerMath.ceilDiv(stages, division.parts()))
                        + SUM_CYCLES
                        + PART_CYCLES * division.allParts();
    }

    /** Returns the predicted time of a cluster for these stages of a tile, in clock cycles. */
    private static double itemCycles(long stages) {
        return stages * STAGE_CYCLES + TILE_CYCLES;
    }

    private static long stages(LinearProblem problem) {
        return IntegerMath.ceilDiv(problem.depth(), STAGE_DEPTH);
    }

    /** Returns the macros to compile the kernel with. */
    public Map<String, Object> defines(DType type) {
        return Map.ofEntries(
                Map.entry("EPILOGUE", epilogue.name()),
                Map.entry("ELEMENT", RowLayout.cudaName(type)),
                Map.entry("STAGES", LAYOUT.stages()),
                Map.entry("THREADS", THREADS),
                Map.entry("SHARED_BYTES", SHARED_BYTES),
                Map.entry("SUM_THREADS", SUM_THREADS));
    }

    /**
     * Returns whether the kernel supports X or the result: 16 bits per element, and contiguous rows that are aligned to
     * 16 bytes.
     *
     * @param shape rows and columns
     * @param strides in elements, like the offset; see {@link Fp32Gemm#supports}
     */
    public static boolean supports(DType type, long[] shape, long[] strides, long offset) {
        return type.isReducedFloatingPoint() && GemmOperands.areRowsAligned(type, shape, strides, offset);
    }

    /**
     * Returns whether the kernel supports a weight: fp32, contiguous rows that are aligned to 16 bytes, and a number of
     * rows that is a multiple of 8.
     *
     * @param shape rows and columns
     * @param strides in elements, like the offset; see {@link Fp32Gemm#supports}
     */
    public static boolean supportsWeight(DType type, long[] shape, long[] strides, long offset) {
        return type == DType.FLOAT32
                && GemmOperands.areRowsAligned(type, shape, strides, offset)
                && shape[0] % GemmOperands.ROW_GROUP == 0;
    }

    @Override
    public String name() {
        return epilogue.name(KERNEL);
    }

    /**
     * Multiplies; on the CPU, by a cast and PyTorch's matrix multiplication.
     *
     * @param inputs X [M, K], bf16 or fp16, and up to {@value LinearProblem#MOST_WEIGHTS} Wᵢ [N, K], fp32; the kernel
     *     {@link #supports} X and {@linkplain #supportsWeight each Wᵢ}. GELU has one Wᵢ, SwiGLU two; otherwise, for
     *     several Wᵢ, N is a multiple of 128
     * @return the results side by side, [M, N · weights], or the value of the epilogue, [M, N], contiguous, of X's
     *     dtype
     */
    @Override
    public Tensor[] compute(Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            Tensor x = inputs[0];
            Tensor[] weights = Arrays.copyOfRange(inputs, 1, inputs.length);
            Tensor product = x.is_cuda()
                    ? onGpu(
                            x,
                            weights,
                            fastestDivision(
                                    LinearProblem.of(x, weights), Gpu.of(x).multiprocessors()))
                    : epilogue.of(x.mm(torch.cat(new TensorVector(weights), 0)
                            .to(x.scalar_type())
                            .t()));
            return new Tensor[] {scope.escape(product)};
        }
    }

    /** Multiplies on the GPU with this division of the tiles. */
    Tensor onGpu(Tensor x, Tensor[] weights, TileDivision division) {
        Gpu gpu = Gpu.of(x);
        DType type = DType.of(x);
        LinearProblem problem = LinearProblem.of(x, weights);
        int rows = Math.toIntExact(problem.rows());
        int columns = Math.toIntExact(problem.allColumns());
        int wholeTiles = Math.toIntExact(division.wholeTiles());
        Tensor product = gpu.empty(type, rows, epilogue.columns(problem));
        Tensor partial = gpu.empty(DType.FLOAT32, division.allParts(), TILE_ROWS, TILE_COLUMNS);
        TensorMap[] maps = Arrays.stream(weights).map(MixedGemm::mapOfWeight).toArray(TensorMap[]::new);
        KernelModule module = MODULES.computeIfAbsent(new MixedGemmKey(this, type, gpu.device()), MixedGemm::load);
        module.kernel(KERNEL)
                .launch(
                        division.grid(LinearProblem.clusters(gpu.multiprocessors())),
                        new BlockDim(THREADS),
                        SHARED_BYTES,
                        TensorMap.of(TensorMap.reachable(x), 1, 1, BLOCK_ROWS, STAGE_DEPTH),
                        maps[0],
                        maps[Math.min(1, maps.length - 1)],
                        maps[maps.length - 1],
                        TensorMap.of(product, 1, 1, BLOCK_ROWS, STORED_COLUMNS),
                        partial,
                        rows,
                        columns,
                        Math.toIntExact(problem.columns()),
                        Math.toIntExact(problem.depth()),
                        wholeTiles,
                        division.parts());
        if (division.splitTiles() > 0) {
            long blocks = division.splitTiles() * TILE_ROWS / SUM_BLOCK_ROWS;
            module.kernel(SUM_KERNEL)
                    .launch(
                            new GridDim(Math.toIntExact(blocks)),
                            new BlockDim(SUM_THREADS),
                            0,
                            partial,
                            product,
                            rows,
                            columns,
                            wholeTiles,
                            division.parts());
        }
        return product;
    }

    private static KernelModule load(MixedGemmKey key) {
        return KernelModule.load(SOURCE, key.gemm.defines(key.type), key.device);
    }

    private static TensorMap mapOfWeight(Tensor w) {
        return TensorMap.of(
                GemmOperands.inRowGroups(TensorMap.reachable(w)),
                TILE_COLUMNS / LinearProblem.CLUSTER / GemmOperands.ROW_GROUP,
                GemmOperands.ROW_GROUP / 2,
                2,
                WEIGHT_DEPTH);
    }
}
