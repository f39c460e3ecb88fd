package cs336.kernels.gemm;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.RowLayout;
import cs336.kernels.runtime.TensorMap;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import cs336.torch.MemoryScope;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * The matrix multiplication X · [W₁; W₂; W₃]ᵀ of the forward pass of one to three linear layers with a common 16-bit
 * input and fp32 weights, by {@code kernels/gemm_mixed.cu}, on Hopper GPUs. The kernel rounds the weights to the dtype
 * of X when it has loaded them, so that no cast of them is stored. Results are bitwise reproducible.
 */
public record MixedGemm() implements JavaOperator {
    public static final String FILE = "gemm_mixed.cu";
    public static final String KERNEL = "gemm_mixed";
    public static final int THREADS = 384;
    public static final int SHARED_BYTES;
    public static final int MOST_WEIGHTS = 3;

    /** Of the result, that a cluster of two blocks computes. */
    private static final int TILE_COLUMNS = 128;

    private static final int CLUSTER = 2;
    private static final int BLOCK_ROWS = 256;
    private static final int STAGES = 3; // in shared memory
    private static final int STAGE_DEPTH = 64;
    private static final int WEIGHT_DEPTH = 32; // 128 bytes
    private static final int WEIGHT_ROWS = 8; // among which TMA changes the order
    private static final int SWIZZLE_ALIGNMENT = 1024;
    private static final int BARRIER_BYTES = 16; // per stage

    // Times in clock cycles of an H200 at 1.7 GHz. For 512 and 2,048 rows of the models' matrices, the first two
    // predict the
    // kernel's time within 10 %, and the others that of casts and cuBLAS within 15 %. Casts and cuBLAS use the whole
    // GPU.
    private static final int H200_MULTIPROCESSORS = 132;
    private static final double STAGE_CYCLES = 1400; // 1,280 by the accesses to shared memory
    private static final double TILE_CYCLES = 6000;
    private static final double CAST_CYCLES = 2.49e-3; // of one weight: 6 bytes at 4.1 TB/s
    private static final double MULTIPLY_CYCLES = 5.67e-6; // of one product by cuBLAS, at 600 TFLOP/s
    private static final double LAUNCH_CYCLES = 5000; // by which casts and cuBLAS take longer

    /** The largest ratio of the predicted times at which the kernel is used. */
    private static final double LARGEST_RATIO = 0.95;

    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final Map<MixedGemmKey, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record MixedGemmKey(DType type, Device device) {}

    static {
        int stageBytes = (TILE_COLUMNS * Float.BYTES + BLOCK_ROWS * DType.BFLOAT16.bytes()) * STAGE_DEPTH;
        SHARED_BYTES = SWIZZLE_ALIGNMENT + STAGES * (stageBytes + BARRIER_BYTES);
    }

    /**
     * A matrix multiplication.
     *
     * @param rows rows of X
     * @param columns rows of each W
     * @param depth columns of X
     * @param weights number of W
     */
    public record MixedProblem(long rows, long columns, long depth, int weights) {
        private long tiles() {
            return GemmOperands.divideUp(rows, CLUSTER * BLOCK_ROWS)
                    * GemmOperands.divideUp(columns * weights, TILE_COLUMNS);
        }

        /**
         * Returns whether the kernel is predicted to be faster than a cast of the weights and a multiplication by
         * cuBLAS.
         */
        public boolean isFaster(int multiprocessors) {
            long rounds = GemmOperands.divideUp(tiles(), multiprocessors / CLUSTER);
            double cycles = rounds * (GemmOperands.divideUp(depth, STAGE_DEPTH) * STAGE_CYCLES + TILE_CYCLES);
            double perProduct = CAST_CYCLES / rows + MULTIPLY_CYCLES;
            double products = (double) rows * columns * weights * depth * H200_MULTIPROCESSORS / multiprocessors;
            return cycles < LARGEST_RATIO * (LAUNCH_CYCLES + perProduct * products)
                    && (weights == 1 || columns % TILE_COLUMNS == 0);
        }
    }

    /** Returns the macros to compile the kernel with. */
    public static Map<String, Object> defines(DType type) {
        return Map.of(
                "ELEMENT",
                RowLayout.cudaName(type),
                "STAGES",
                STAGES,
                "THREADS",
                THREADS,
                "SHARED_BYTES",
                SHARED_BYTES);
    }

    /** Returns whether the kernel runs on this GPU: one of the Hopper architecture. */
    public static boolean runsOn(Gpu gpu) {
        return gpu.architecture().major() == 9 && gpu.blockSharedBytes() >= SHARED_BYTES;
    }

    /**
     * Returns whether the kernel supports X or the result: 16 bits per element, and contiguous rows that are aligned to
     * 16 bytes.
     */
    public static boolean supports(DType type, long[] shape, long[] strides, long offset) {
        return (type == DType.BFLOAT16 || type == DType.FLOAT16) && areRowsAligned(type, shape, strides, offset);
    }

    /**
     * Returns whether the kernel supports a weight: fp32, a multiple of 8 contiguous rows that are aligned to 16 bytes.
     */
    public static boolean supportsWeight(DType type, long[] shape, long[] strides, long offset) {
        return type == DType.FLOAT32 && shape[0] % WEIGHT_ROWS == 0 && areRowsAligned(type, shape, strides, offset);
    }

    private static boolean areRowsAligned(DType type, long[] shape, long[] strides, long offset) {
        return strides[1] == 1 && GemmOperands.areLinesAligned(type, shape, strides, offset);
    }

    @Override
    public String name() {
        return KERNEL;
    }

    /**
     * Multiplies; on the CPU, by a cast and PyTorch's matrix multiplication.
     *
     * @param inputs X [M, K], bf16 or fp16, and up to {@value #MOST_WEIGHTS} Wᵢ [N, K], fp32; the kernel
     *     {@link #supports} X and {@linkplain #supportsWeight each Wᵢ}, and for several Wᵢ N is a multiple of 128
     * @return the products next to each other, [M, N · weights], contiguous, of X's dtype
     */
    @Override
    public Tensor[] compute(Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            Tensor x = inputs[0];
            Tensor[] weights = Arrays.copyOfRange(inputs, 1, inputs.length);
            Tensor product = x.is_cuda()
                    ? onGpu(x, weights)
                    : x.mm(torch.cat(new TensorVector(weights), 0)
                            .to(x.scalar_type())
                            .t());
            return new Tensor[] {scope.escape(product)};
        }
    }

    private static Tensor onGpu(Tensor x, Tensor[] weights) {
        Gpu gpu = Gpu.of(x);
        DType type = DType.of(x);
        var problem = new MixedProblem(x.size(0), weights[0].size(0), x.size(1), weights.length);
        long columns = problem.columns * problem.weights;
        Tensor product = gpu.empty(type, problem.rows, columns);
        long clusters = Math.min(problem.tiles(), gpu.multiprocessors() / CLUSTER);
        KERNELS.computeIfAbsent(new MixedGemmKey(type, gpu.device()), MixedGemm::load)
                .launch(
                        new GridDim(Math.toIntExact(clusters * CLUSTER)),
                        new BlockDim(THREADS),
                        SHARED_BYTES,
                        TensorMap.of(GemmOperands.aligned(x), 1, 1, BLOCK_ROWS, STAGE_DEPTH),
                        mapOfWeight(weights[0]),
                        mapOfWeight(weights[Math.min(1, weights.length - 1)]),
                        mapOfWeight(weights[weights.length - 1]),
                        TensorMap.of(product, 1, 1, BLOCK_ROWS, STAGE_DEPTH),
                        Math.toIntExact(problem.rows),
                        Math.toIntExact(columns),
                        Math.toIntExact(problem.columns),
                        Math.toIntExact(problem.depth));
        return product;
    }

    private static Kernel load(MixedGemmKey key) {
        return KernelModule.load(SOURCE, defines(key.type), key.device).kernel(KERNEL);
    }

    /** Returns a map with which TMA stores row 4·v + u of each eight rows as row 2·u + v. */
    private static TensorMap mapOfWeight(Tensor w) {
        Tensor aligned = GemmOperands.aligned(w);
        Tensor eights = aligned.view(aligned.size(0) / WEIGHT_ROWS, 2, WEIGHT_ROWS / 2, aligned.size(1));
        return TensorMap.of(
                eights.permute(0, 2, 1, 3), TILE_COLUMNS / CLUSTER / WEIGHT_ROWS, WEIGHT_ROWS / 2, 2, WEIGHT_DEPTH);
    }
}
