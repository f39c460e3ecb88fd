package cs336.kernels.runtime;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import org.bytedeco.cuda.cudart.CUtensorMap;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;

/**
 * Tells a Hopper card's copy engine (TMA) where a tensor lies and how large a box of it one copy moves. A kernel takes
 * it as a parameter {@code const __grid_constant__ TensorMap}, see {@code hopper.cuh}, and addresses boxes by their
 * first element. Elements of a box that lie outside the tensor arrive as zeros and are not written back; a box that is
 * written must not begin before the tensor.
 *
 * <p>In shared memory a box's rows, its last dimension, are 128 bytes long and swizzled: 16-byte piece p of row r lies
 * at p ^ (r mod 8). Boxes begin at multiples of 1,024 bytes there.
 *
 * <p>Sources: CUDA driver API, cuTensorMapEncodeTiled; CUDA C++ Programming Guide, on tensor memory access.
 */
public final class TensorMap {
    private static final int ROW_BYTES = 128;
    private static final int ALIGNMENT = 16; // bytes
    private static final int MOST_DIMENSIONS = 5;
    private static final int MOST_IN_BOX = 256; // elements of a dimension

    /**
     * What a map says.
     *
     * @param sizes this and the following: innermost dimension first
     * @param strides bytes, of all dimensions but the innermost
     */
    private record TensorMapContent(long address, int type, long[] sizes, long[] strides, int[] box) {
        boolean is(TensorMapContent other) {
            return address == other.address
                    && type == other.type
                    && Arrays.equals(sizes, other.sizes)
                    && Arrays.equals(strides, other.strides)
                    && Arrays.equals(box, other.box);
        }
    }

    private final Tensor tensor;
    private final TensorMapContent content;

    private TensorMap(Tensor tensor, TensorMapContent content) {
        this.tensor = tensor;
        this.content = content;
    }

    /**
     * The map of a tensor, for boxes of one size.
     *
     * @param tensor of 2 to 5 dimensions, fp32, bf16 or fp16; elements of the last dimension are neighbours, and all
     *     others lie at multiples of 16 bytes, each for itself ({@link #fits} tells)
     * @param box elements in each of the tensor's dimensions, at most 256; the last one fills 128 bytes. Dimensions of
     *     the box that the tensor lacks, in front, have one element in the map
     * @throws IllegalArgumentException if one of them does not fit
     */
    public static TensorMap of(Tensor tensor, int... box) {
        DType dtype = TensorChecks.type("tensor", tensor, TensorChecks.KERNEL_TYPES);
        int n = box.length;
        int lacking = n - (int) tensor.dim();
        if (tensor.dim() < 2 || n > MOST_DIMENSIONS || lacking < 0) {
            throw new IllegalArgumentException("box must have as many dimensions as the tensor or more, 2 to "
                    + MOST_DIMENSIONS + "; it is " + Arrays.toString(box) + " for "
                    + Arrays.toString(Tensors.shape(tensor)));
        }
        if (!fits(tensor)) {
            throw new IllegalArgumentException("tensor must lie at multiples of " + ALIGNMENT + " bytes; its shape is "
                    + Arrays.toString(Tensors.shape(tensor)));
        }
        long[] sizes = new long[n];
        long[] strides = new long[n - 1];
        int[] reversed = new int[n];
        for (int i = 0; i < n; i++) {
            int from = n - 1 - i;
            sizes[i] = from < lacking ? 1 : tensor.size(from - lacking);
            reversed[i] = box[from];
            if (i > 0) strides[i - 1] = sizes[i] == 1 ? ALIGNMENT : tensor.stride(from - lacking) * dtype.bytes();
            if (box[from] < 1 || box[from] > MOST_IN_BOX) {
                throw new IllegalArgumentException(
                        "box must have 1 to " + MOST_IN_BOX + " elements a dimension, not " + Arrays.toString(box));
            }
        }
        if (reversed[0] * dtype.bytes() != ROW_BYTES) {
            throw new IllegalArgumentException("box must have " + ROW_BYTES / dtype.bytes()
                    + " elements in its last dimension for " + dtype + ", not " + reversed[0]);
        }
        long address = tensor.data_ptr().address();
        return new TensorMap(tensor, new TensorMapContent(address, code(dtype), sizes, strides, reversed));
    }

    /**
     * Whether a tensor lies so that the copy engine can reach it: rows dense, each at a multiple of 16 bytes, none
     * twice.
     */
    public static boolean fits(Tensor tensor) {
        long bytes = tensor.element_size();
        int last = (int) tensor.dim() - 1;
        if (tensor.numel() == 0 || tensor.stride(last) != 1 && tensor.size(last) > 1) return false;
        boolean aligned = tensor.data_ptr().address() % ALIGNMENT == 0;
        for (int i = 0; i < last; i++) {
            long stride = tensor.stride(i) * bytes;
            aligned &= tensor.size(i) == 1 || stride > 0 && stride % ALIGNMENT == 0;
        }
        return aligned;
    }

    private static int code(DType dtype) {
        return switch (dtype) {
            case FLOAT32 -> cudart.CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
            case BFLOAT16 -> cudart.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
            case FLOAT16 -> cudart.CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
            default -> throw new IllegalArgumentException("tensor must be fp32, bf16 or fp16, not " + dtype);
        };
    }

    Tensor tensor() {
        return tensor;
    }

    /** A place for a map as the card reads it, where one may follow another. */
    static final class TensorMapBuffer {
        static final int BYTES = 128;
        private static final int BYTES_ALIGNMENT = 64;

        private final CUtensorMap map;
        private TensorMapContent written; // not the tensor, which shall not live as long as this

        TensorMapBuffer() {
            BytePointer room = MemoryScope.keep(new BytePointer(BYTES + BYTES_ALIGNMENT));
            long beyond = room.address() % BYTES_ALIGNMENT;
            Pointer aligned = MemoryScope.keep(room.getPointer(beyond == 0 ? 0 : BYTES_ALIGNMENT - beyond));
            map = MemoryScope.keep(new CUtensorMap(aligned));
        }

        CUtensorMap map() {
            return map;
        }

        /**
         * Writes a map; the card's context must be current. One that says the same as the last one is there already.
         */
        void write(TensorMap next) {
            TensorMapContent content = next.content;
            if (written != null && content.is(written)) return;
            int[] everyElement = new int[content.box.length];
            Arrays.fill(everyElement, 1);
            Driver.check(
                    cudart.cuTensorMapEncodeTiled(
                            map,
                            content.type,
                            content.sizes.length,
                            next.tensor.data_ptr(),
                            content.sizes,
                            content.strides,
                            content.box,
                            everyElement,
                            cudart.CU_TENSOR_MAP_INTERLEAVE_NONE,
                            cudart.CU_TENSOR_MAP_SWIZZLE_128B,
                            cudart.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                            cudart.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                    "cuTensorMapEncodeTiled");
            written = content;
        }
    }
}
