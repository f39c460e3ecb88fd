package cs336.kernels.runtime;

import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.Tensor;

/**
 * Rows of elements, as kernels see them.
 *
 * @param width elements in a row
 * @param type of the elements
 * @param gainType of the vector that goes with each row
 * @param vector how many neighbouring elements an access may move: up to 16 bytes, as width and addresses allow
 * @param device the card
 */
public record RowLayout(int width, DType type, DType gainType, int vector, Device device) {
    private static final int WIDEST_ACCESS = 16;

    /**
     * That of dense tensors.
     *
     * @param gain the vector
     * @param rows tensors of the same width and type
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

    /** Bytes of an access to the rows. */
    public int accessBytes() {
        return vector * type.bytes();
    }

    /** Accesses that a row takes. */
    public int accesses() {
        return width / vector;
    }

    private static boolean allAligned(Tensor[] tensors, int bytes) {
        for (Tensor tensor : tensors) {
            if (!aligned(tensor, bytes)) return false;
        }
        return true;
    }

    private static boolean aligned(Tensor tensor, int bytes) {
        return tensor.data_ptr().address() % Math.min(bytes, WIDEST_ACCESS) == 0;
    }

    /** The type's name in kernels. */
    public static String cudaName(DType type) {
        return switch (type) {
            case FLOAT32 -> "float";
            case BFLOAT16 -> "bf16";
            case FLOAT16 -> "fp16";
            default -> throw new IllegalArgumentException("kernels have no elements of type " + type);
        };
    }
}
