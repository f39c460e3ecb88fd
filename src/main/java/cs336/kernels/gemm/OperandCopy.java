package cs336.kernels.gemm;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.torch.Device;
import cs336.units.IntegerMath;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.Tensor;

/** Copies of a matrix as operand Q of {@code kernels/gemm_fp32.cu}, by {@code kernels/operand_copy.cu}. */
public final class OperandCopy {
    public static final String FILE = "operand_copy.cu";
    public static final String KERNEL = "operand_copy";
    public static final int THREADS = 256;

    private static final int SIDE = 64; // rows and columns of a tile
    private static final KernelSource SOURCE = KernelSource.named(FILE);
    private static final Map<OperandCopyKey, Kernel> KERNELS = new ConcurrentHashMap<>();

    private record OperandCopyKey(boolean isTransposed, int parts, Device device) {}

    private OperandCopy() {}

    /**
     * Copies a matrix.
     *
     * @param x fp32 [rows, columns] with contiguous rows; the columns, the distance between rows and, if transposed,
     *     the rows are multiples of 4, and the first element is aligned to 16 bytes
     * @param isTransposed whether the copies are transposed
     * @param parts 1 for a copy; 2 for hi, which is x rounded to TF32, and lo, which is x − hi
     * @return the copies, contiguous
     */
    static Tensor[] of(Tensor x, boolean isTransposed, int parts) {
        Gpu gpu = Gpu.of(x);
        int rows = Math.toIntExact(x.size(0));
        int columns = Math.toIntExact(x.size(1));
        Tensor[] copies = new Tensor[parts];
        for (int i = 0; i < parts; i++) {
            copies[i] = isTransposed ? gpu.empty(columns, rows) : gpu.empty(rows, columns);
        }
        KERNELS.computeIfAbsent(new OperandCopyKey(isTransposed, parts, gpu.device()), OperandCopy::load)
                .launch(
                        new GridDim(
                                Math.toIntExact(IntegerMath.ceilDiv(rows, SIDE) * IntegerMath.ceilDiv(columns, SIDE))),
                        new BlockDim(THREADS),
                        sharedBytes(isTransposed),
                        x,
                        copies[0],
                        copies[parts - 1],
                        rows,
                        columns,
                        Math.toIntExact(x.stride(0)));
        return copies;
    }

    /** Returns the macros to compile the kernel with. */
    public static Map<String, Object> defines(boolean isTransposed, int parts) {
        return Map.of(
                "TRANSPOSED", isTransposed ? 1 : 0,
                "PARTS", parts,
                "SIDE", SIDE,
                "THREADS", THREADS,
                "SHARED_BYTES", sharedBytes(isTransposed));
    }

    /** Returns the dynamic shared memory of a block, in bytes. */
    public static int sharedBytes(boolean isTransposed) {
        return isTransposed ? SIDE * (SIDE + 1) * Float.BYTES : 0;
    }

    private static Kernel load(OperandCopyKey key) {
        return KernelModule.load(SOURCE, defines(key.isTransposed, key.parts), key.device)
                .kernel(KERNEL);
    }
}
