package cs336.kernels.gemm;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Fp32Emulation;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.TensorMap;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.JavaOperator;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import cs336.units.IntegerMath;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;

/**
 * The matrix multiplication A · B of fp32 matrices on the tensor cores of Hopper GPUs, by {@code kernels/gemm_fp32.cu}.
 * Results are bitwise reproducible.
 *
 * <p>A and B are row-major or column-major, with or without gaps between rows or columns. The kernel needs an operand Q
 * that is contiguous along the sum: a row-major A or a column-major B. If both are, Q is the smaller operand. If none
 * is, Q is a transposed copy of the smaller operand. With {@link Fp32Emulation#TF32_X3} two copies of Q hold the upper
 * and the lower TF32 number of each element. Copies need memory until the multiplication has ended.
 *
 * @param emulation emulation of fp32 multiplications
 */
public record Fp32Gemm(Fp32Emulation emulation) implements JavaOperator {
    public static final String FILE = "gemm_fp32.cu";
    public static final String KERNEL = "gemm_fp32";
    public static final int THREADS = 384;

    private static final int BLOCK_ROWS = 128; // of a tile
    private static final int TILE_ROWS = LinearProblem.CLUSTER * BLOCK_ROWS;
    private static final int STAGE_DEPTH = 32;

    // Units of 0.52 ns with three multiplications and 0.67 ns with one, fitted to the matrix multiplications of the
    // five models with 512 and 2,048 tokens on H100 GPUs. The relative errors of the predicted times have standard
    // deviations of 8 % and 9 %.
    private static final double TILE_CYCLES = 6000; // beyond multiplying: the first stages arrive, results are stored
    private static final double COPY_CYCLES = 3000;
    private static final double CYCLES_PER_COPIED_BYTE = 4.5e-4;

    // The time of cuBLAS with M multiprocessors is the first number plus FLOP / (M · rate).
    private static final double CUBLAS_CYCLES = 15_000;
    private static final double CUBLAS_FP32_RATE = 170;
    private static final double CUBLAS_TF32_RATE = 1700;
    private static final double CUBLAS_TF32_RATE_WITHOUT_CONTIGUOUS_SUM = 1050;

    /** Fewest FLOP for which the kernel is used; the smallest matrices that were measured need 6e8. */
    private static final double LEAST_FLOPS = 5e8;

    /** The largest ratio of the predicted times at which the kernel is used. */
    private static final double LARGEST_RATIO = 0.95;

    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final Map<Fp32GemmKey, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record Fp32GemmKey(Fp32Gemm gemm, boolean pAlong, int tileColumns, Device device) {}

    /**
     * The multiplication D = P · Qᵀ that computes A · B or its transpose. P has {@code rows} rows, Q has
     * {@code columns}, and both have {@code depth} columns.
     *
     * @param pIsA whether P is A, so that D is A · B; otherwise P is Bᵀ, and D is (A · B)ᵀ
     * @param pAlong whether the rows of P are contiguous; otherwise its columns are
     * @param qAlong whether the rows of Q are contiguous; otherwise a transposed copy of it is
     */
    private record Arrangement(long rows, long columns, long depth, boolean pIsA, boolean pAlong, boolean qAlong) {
        static Arrangement of(long[] shapeOfA, long[] stridesOfA, long[] shapeOfB, long[] stridesOfB) {
            boolean aAlong = stridesOfA[1] == 1;
            boolean bAlong = stridesOfB[0] == 1;
            // Q is the operand that is contiguous along the sum or, if both or none are, the smaller one.
            boolean pIsA = aAlong == bAlong ? shapeOfA[0] >= shapeOfB[1] : bAlong;
            long depth = shapeOfA[1];
            return pIsA
                    ? new Arrangement(shapeOfA[0], shapeOfB[1], depth, true, aAlong, bAlong)
                    : new Arrangement(shapeOfB[1], shapeOfA[0], depth, false, bAlong, aAlong);
        }

        LinearProblem problem() {
            return new LinearProblem(rows, columns, depth, 1);
        }
    }

    /** Returns the numbers of columns of a tile for which the kernel is compiled. */
    public List<Integer> tileColumns() {
        return isSplit() ? List.of(64, 96, 128, 160) : List.of(96, 128, 160, 208, 256);
    }

    /**
     * Returns whether the kernel supports an operand or a result with these sizes and strides.
     *
     * @param shape rows and columns
     * @param strides distances between rows and between columns, in elements
     * @param offset position of the first element after an address that is a multiple of 16 bytes, in elements
     */
    public static boolean supports(long[] shape, long[] strides, long offset) {
        return GemmOperands.areLinesAligned(DType.FLOAT32, shape, strides, offset);
    }

    /**
     * Returns whether the kernel supports these layouts together and is predicted to be faster than cuBLAS. With
     * {@link Fp32Emulation#TF32} one operand must not be contiguous along the sum; if both are, there is
     * {@link Tf32Gemm}.
     *
     * @param shapeOfA [M, K]
     * @param stridesOfA strides of A, in elements
     * @param shapeOfB [K, N]
     * @param stridesOfB strides of B, in elements
     * @param multiprocessors multiprocessors of the GPU
     */
    public boolean isFaster(
            long[] shapeOfA, long[] stridesOfA, long[] shapeOfB, long[] stridesOfB, int multiprocessors) {
        var arranged = Arrangement.of(shapeOfA, stridesOfA, shapeOfB, stridesOfB);
        double flops = 2.0 * arranged.rows * arranged.columns * arranged.depth;
        if (!supports(arranged) || flops < LEAST_FLOPS) {
            return false;
        }
        int tileColumns = fastestTile(arranged.problem(), multiprocessors);
        double cycles = cycles(arranged.problem(), tileColumns, multiprocessors);
        if (isSplit() || !arranged.qAlong) {
            double bytes = (double) arranged.columns * arranged.depth * Float.BYTES * (1 + parts());
            cycles += COPY_CYCLES + CYCLES_PER_COPIED_BYTE * bytes;
        }
        double rate = isSplit()
                ? CUBLAS_FP32_RATE
                : arranged.qAlong ? CUBLAS_TF32_RATE : CUBLAS_TF32_RATE_WITHOUT_CONTIGUOUS_SUM;
        return cycles < LARGEST_RATIO * (CUBLAS_CYCLES + flops / (multiprocessors * rate));
    }

    private boolean supports(Arrangement arranged) {
        return arranged.pAlong ? isSplit() : arranged.depth % GemmOperands.ROW_GROUP == 0;
    }

    /** Returns whether operands are split into two parts. */
    private boolean isSplit() {
        return emulation == Fp32Emulation.TF32_X3;
    }

    private int parts() {
        return isSplit() ? 2 : 1;
    }

    private int fastestTile(LinearProblem problem, int multiprocessors) {
        return tileColumns().stream()
                .min(Comparator.comparing(tileColumns -> cycles(problem, tileColumns, multiprocessors)))
                .orElseThrow();
    }

    /** Returns the predicted time of the kernel. */
    private double cycles(LinearProblem problem, int tileColumns, int multiprocessors) {
        double stage = isSplit() ? 13 * tileColumns + 250 : Math.max(3.5 * tileColumns + 100, 500);
        return problem.waves(TILE_ROWS, tileColumns, multiprocessors)
                * (IntegerMath.ceilDiv(problem.depth(), STAGE_DEPTH) * stage + TILE_CYCLES);
    }

    /**
     * Returns the macros to compile the kernel with.
     *
     * @param pAlong whether the rows of the kernel's operand P are contiguous; otherwise its columns are
     */
    public Map<String, Object> defines(boolean pAlong, int tileColumns) {
        return Map.ofEntries(
                Map.entry("P_ALONG", pAlong ? 1 : 0),
                Map.entry("PRODUCTS", emulation.products()),
                Map.entry("COLUMNS", tileColumns),
                Map.entry("STAGES", layout(tileColumns).stages()),
                Map.entry("THREADS", THREADS),
                Map.entry("SHARED_BYTES", sharedBytes(tileColumns)));
    }

    private SharedMemoryLayout layout(int tileColumns) {
        return new SharedMemoryLayout((BLOCK_ROWS + parts() * tileColumns) * STAGE_DEPTH * Float.BYTES, 1, 0);
    }

    /** Returns the dynamic shared memory of a block, in bytes. */
    public int sharedBytes(int tileColumns) {
        return layout(tileColumns).bytes();
    }

    @Override
    public String name() {
        return isSplit() ? KERNEL : KERNEL + "_as_tf32";
    }

    /**
     * Multiplies two matrices; on the CPU, by PyTorch's matrix multiplication in fp32.
     *
     * @param inputs A [M, K] and B [K, N], fp32; the kernel {@link #supports} both and the result. With
     *     {@link Fp32Emulation#TF32} at most one of them is contiguous along the sum. Unless both are, K is a multiple
     *     of 8
     * @return the result [M, N], contiguous
     * @throws IllegalArgumentException on a GPU, if the kernel does not support K or these layouts together
     */
    @Override
    public Tensor[] compute(Tensor... inputs) {
        try (var scope = MemoryScope.open()) {
            Tensor a = inputs[0];
            Tensor b = inputs[1];
            if (!a.is_cuda()) {
                return new Tensor[] {scope.escape(a.mm(b))};
            }
            Arrangement arranged = arrange(a, b);
            int tileColumns = fastestTile(arranged.problem(), Gpu.of(a).multiprocessors());
            return new Tensor[] {scope.escape(onGpu(arranged, tileColumns, a, b))};
        }
    }

    /** Multiplies like {@link #compute} on a GPU, in tiles with this number of columns. */
    Tensor onGpu(int tileColumns, Tensor a, Tensor b) {
        return onGpu(arrange(a, b), tileColumns, a, b);
    }

    private Arrangement arrange(Tensor a, Tensor b) {
        long[] stridesOfA = {a.stride(0), a.stride(1)};
        long[] stridesOfB = {b.stride(0), b.stride(1)};
        var arranged = Arrangement.of(Tensors.shape(a), stridesOfA, Tensors.shape(b), stridesOfB);
        if (!supports(arranged)) {
            throw new IllegalArgumentException(
                    name() + " needs K as a multiple of " + GemmOperands.ROW_GROUP + ", and for TF32 an operand that is"
                            + " not contiguous along K; A is " + Arrays.toString(Tensors.shape(a)) + " with strides "
                            + Arrays.toString(stridesOfA) + ", B is " + Arrays.toString(Tensors.shape(b))
                            + " with strides " + Arrays.toString(stridesOfB));
        }
        return arranged;
    }

    private Tensor onGpu(Arrangement arranged, int tileColumns, Tensor a, Tensor b) {
        Gpu gpu = Gpu.of(a);
        int rows = Math.toIntExact(arranged.rows);
        int columns = Math.toIntExact(arranged.columns);
        Tensor product = arranged.pIsA ? gpu.empty(rows, columns) : gpu.empty(columns, rows);
        Tensor p = GemmOperands.aligned(arranged.pIsA ? a : b.t());
        Tensor q = GemmOperands.aligned(arranged.pIsA ? b.t() : a);
        boolean isCopied = isSplit() || !arranged.qAlong;
        Tensor[] parts =
                isCopied ? OperandCopy.of(arranged.qAlong ? q : q.t(), !arranged.qAlong, parts()) : new Tensor[] {q};
        KERNELS.computeIfAbsent(new Fp32GemmKey(this, arranged.pAlong, tileColumns, gpu.device()), Fp32Gemm::load)
                .launch(
                        arranged.problem().grid(TILE_ROWS, tileColumns, gpu.multiprocessors()),
                        new BlockDim(THREADS),
                        sharedBytes(tileColumns),
                        arranged.pAlong ? mapOfRows(p, BLOCK_ROWS) : mapOfColumns(p),
                        mapOfRows(parts[0], tileColumns / LinearProblem.CLUSTER),
                        mapOfRows(parts[parts.length - 1], tileColumns / LinearProblem.CLUSTER),
                        product,
                        rows,
                        columns,
                        Math.toIntExact(arranged.depth),
                        arranged.pIsA ? 0 : 1);
        return product;
    }

    private static Kernel load(Fp32GemmKey key) {
        return KernelModule.load(SOURCE, key.gemm.defines(key.pAlong, key.tileColumns), key.device)
                .kernel(KERNEL);
    }

    private TensorMap mapOfRows(Tensor x, int rows) {
        return map(x, 1, 1, rows, STAGE_DEPTH);
    }

    private TensorMap mapOfColumns(Tensor x) {
        int group = GemmOperands.ROW_GROUP;
        return map(GemmOperands.inRowGroups(x.t()), STAGE_DEPTH / group, group / 2, 2, STAGE_DEPTH);
    }

    private TensorMap map(Tensor x, int... box) {
        return isSplit() ? TensorMap.of(x, box) : TensorMap.roundedToTf32(x, box);
    }
}
