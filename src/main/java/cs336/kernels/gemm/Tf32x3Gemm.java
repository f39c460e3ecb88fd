package cs336.kernels.gemm;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.LaunchStream;
import cs336.torch.CudaGraph;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import cs336.torch.MemoryScope;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The fp32 matrix multiplication A · B on tensor cores, by {@code kernels/gemm_tf32x3.cu}. It splits each operand into
 * a sum of two TF32 numbers and multiplies three times. For operands between 1e-34 and 3.4e38 it is as accurate as
 * fp32. Smaller ones lose accuracy; larger and infinite ones give NaN. Results are bitwise reproducible.
 *
 * <p>A and B are stored row by row or column by column, with or without gaps between the rows or columns.
 *
 * <p>Like cuBLAS, it keeps a workspace of 9 MB per stream; see {@link CudaGraph} for the consequences.
 */
public record Tf32x3Gemm() implements JavaOperator {
    public static final String FILE = "gemm_tf32x3.cu";
    public static final String KERNEL = "gemm_tf32x3";
    public static final int THREADS = 256;

    private static final int TILE = 128; // rows and columns that a block computes
    private static final int STAGE_DEPTH = 32;
    private static final int STAGES = 3; // in shared memory

    /** Fewest stages per multiprocessor for which the kernel was faster than cuBLAS on an H200. */
    private static final int LEAST_STAGES = 10;

    /** The smallest depth that was measured. */
    private static final int LEAST_DEPTH = 512;

    /** The smallest fraction of the multiplications of all stages that count for the result; measured from 0.96 on. */
    private static final double LEAST_FILLED = 0.9;

    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final Map<GemmVariant, Kernel> KERNELS = new ConcurrentHashMap<>();
    private static final Map<StreamKey, Workspace> WORKSPACES = new ConcurrentHashMap<>();

    private record GemmVariant(boolean aByRows, boolean bByRows, Device device) {}

    private record StreamKey(Device device, long stream) {}

    /** A flag and a tile of partial sums per block. */
    private record Workspace(Tensor flags, Tensor partial) {
        static Workspace allocate(Gpu gpu, LaunchStream stream) {
            if (stream.isCapturing()) {
                throw new IllegalStateException(
                        "the first matrix multiplication on a stream cannot be recorded: run the work once before");
            }
            try (var scope = MemoryScope.open()) {
                int blocks = gpu.multiprocessors();
                Tensor flags = torch.zeros(new long[] {blocks}, gpu.device().options(DType.INT32));
                return new Workspace(MemoryScope.keep(flags), MemoryScope.keep(gpu.empty(blocks, TILE, TILE)));
            }
        }
    }

    /** Returns the macros to compile the kernel with. */
    public static Map<String, Object> defines(boolean aByRows, boolean bByRows) {
        return Map.of(
                "A_BY_ROWS",
                aByRows ? 1 : 0,
                "B_BY_ROWS",
                bByRows ? 1 : 0,
                "TILE",
                TILE,
                "DEPTH",
                STAGE_DEPTH,
                "STAGES",
                STAGES,
                "THREADS",
                THREADS,
                "SHARED_BYTES",
                sharedBytes(aByRows, bByRows));
    }

    /** Returns the dynamic shared memory of a block. */
    public static int sharedBytes(boolean aByRows, boolean bByRows) {
        int along = TILE * (STAGE_DEPTH + 4);
        int across = STAGE_DEPTH * (TILE + 8);
        return STAGES * ((aByRows ? along : across) + (bByRows ? across : along)) * DType.FLOAT32.bytes();
    }

    /**
     * Returns whether the kernel is faster than cuBLAS on this GPU for large matrices: it was measured on sm_90. sm_80
     * has a similar ratio of TF32 to fp32 throughput; most other GPUs have a smaller one.
     */
    public static boolean isFasterOn(Gpu gpu) {
        return gpu.architecture().minor() == 0
                && (gpu.architecture().major() == 8 || gpu.architecture().major() == 9)
                && gpu.blockSharedBytes() >= sharedBytes(true, false);
    }

    /**
     * Returns whether matrices of this size are large enough for the kernel to be faster than cuBLAS.
     *
     * @param rows rows of A
     * @param columns columns of B
     * @param depth columns of A
     */
    public static boolean isFasterFor(long rows, long columns, long depth, int multiprocessors) {
        long stages = stages(rows, columns, depth);
        return depth >= LEAST_DEPTH
                && stages >= (long) LEAST_STAGES * multiprocessors
                && stages <= Integer.MAX_VALUE
                && (double) rows * columns * depth >= LEAST_FILLED * stages * TILE * TILE * STAGE_DEPTH;
    }

    /** Returns the number of stages of all tiles. */
    private static long stages(long rows, long columns, long depth) {
        return GridDim.ceilDiv(rows, TILE) * GridDim.ceilDiv(columns, TILE) * GridDim.ceilDiv(depth, STAGE_DEPTH);
    }

    /**
     * Returns whether the kernel supports an operand or a result with these sizes and strides.
     *
     * @param shape rows and columns
     * @param offset position of the first element after an address that is a multiple of 16 bytes, in elements
     */
    public static boolean supports(long[] shape, long[] strides, long offset) {
        return GemmOperands.areLinesAligned(DType.FLOAT32, shape, strides, offset);
    }

    @Override
    public String name() {
        return KERNEL;
    }

    /**
     * Multiplies two matrices; on the CPU, by PyTorch's matrix multiplication.
     *
     * @param inputs A [M, K] and B [K, N], fp32; the kernel {@link #supports} both and the result
     * @return the product [M, N], contiguous
     */
    @Override
    public Tensor[] compute(Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            Tensor product = inputs[0].is_cuda()
                    ? onGpu(GemmOperands.aligned(inputs[0]), GemmOperands.aligned(inputs[1]))
                    : inputs[0].mm(inputs[1]);
            return new Tensor[] {scope.escape(product)};
        }
    }

    private static Tensor onGpu(Tensor a, Tensor b) {
        Gpu gpu = Gpu.of(a);
        int rows = Math.toIntExact(a.size(0));
        int columns = Math.toIntExact(b.size(1));
        int depth = Math.toIntExact(a.size(1));
        boolean aByRows = a.stride(1) == 1;
        boolean bByRows = b.stride(1) == 1;
        int stages = Math.toIntExact(stages(rows, columns, depth));
        Kernel kernel = KERNELS.computeIfAbsent(
                new GemmVariant(aByRows, bByRows, gpu.device()),
                key -> KernelModule.load(SOURCE, defines(key.aByRows, key.bByRows), key.device)
                        .kernel(KERNEL));
        Tensor c = gpu.empty(rows, columns);
        try (var stream = LaunchStream.of(gpu.device())) {
            Workspace workspace = WORKSPACES.computeIfAbsent(
                    new StreamKey(gpu.device(), stream.id()), key -> Workspace.allocate(gpu, stream));
            kernel.launch(
                    stream,
                    new GridDim(Math.min(stages, gpu.multiprocessors())),
                    new BlockDim(THREADS),
                    sharedBytes(aByRows, bByRows),
                    a,
                    b,
                    c,
                    workspace.flags,
                    workspace.partial,
                    rows,
                    columns,
                    depth,
                    (int) a.stride(aByRows ? 0 : 1),
                    (int) b.stride(bByRows ? 0 : 1));
        }
        return c;
    }
}
