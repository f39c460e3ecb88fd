package cs336.kernels.runtime;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;

/**
 * The memory layout of the rows that a kernel processes, and of a weight vector that is as long as a row.
 *
 * @param width elements per row
 * @param type dtype of the rows
 * @param gainType dtype of the weight
 * @param vector contiguous elements per memory access: 16 bytes, or fewer if width or alignment require it
 * @param device CUDA device of the tensors
 */
public record RowLayout(int width, DType type, DType gainType, int vector, Device device) {
    private static final int WIDEST_ACCESS = 16; // bytes

    /**
     * Returns the layout of contiguous tensors.
     *
     * @param gain the weight, [width]
     * @param rows one or more tensors […, width] of the same dtype
     */
    public static RowLayout of(Tensor gain, Tensor... rows) {
        DType type = DType.of(rows[0]);
        DType gainType = DType.of(gain);
        int width = Math.toIntExact(rows[0].size(-1));
        int vector = WIDEST_ACCESS / type.bytes();
        while (width % vector != 0
                || !aligned(gain, vector * gainType.bytes())
                || !allAligned(rows, vector * type.bytes())) {
            vector /= 2;
        }
        return new RowLayout(width, type, gainType, vector, Gpu.of(rows[0]).device());
    }

    /** Returns the bytes per access to a row. */
    public int accessBytes() {
        return vector * type.bytes();
    }

    /** Returns the number of accesses per row. */
    public int accesses() {
        return width / vector;
    }

    private static boolean allAligned(Tensor[] tensors, int bytes) {
        for (Tensor tensor : tensors) {
            if (!aligned(tensor, bytes)) {
                return false;
            }
        }
        return true;
    }

    private static boolean aligned(Tensor tensor, int bytes) {
        return tensor.data_ptr().address() % Math.min(bytes, WIDEST_ACCESS) == 0;
    }

    /**
     * Returns the name of a dtype in CUDA sources.
     *
     * @throws IllegalArgumentException if kernels do not support the dtype
     */
    public static String cudaName(DType type) {
        return switch (type) {
            case FLOAT32 -> "float";
            case BFLOAT16 -> "bf16";
            case FLOAT16 -> "fp16";
            default -> throw new IllegalArgumentException("dtype must be fp32, bf16 or fp16 in kernels, not " + type);
        };
    }
}
