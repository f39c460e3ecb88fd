package cs336.kernels.runtime;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Set;
import org.bytedeco.cuda.cudart.CUtensorMap;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch.MemoryFormat;

/**
 * A tensor map for Hopper's tensor memory accelerator (TMA): the address, shape and strides of a tensor, and the size
 * of the box that one copy moves between global and shared memory. A kernel receives it as a parameter {@code const
 * __grid_constant__ TensorMap} (see {@code hopper.cuh}) and addresses a box by its first element. TMA loads zeros for
 * elements outside the tensor and does not store them. A box that is stored must not begin before the tensor.
 *
 * <p>In shared memory a box starts at a multiple of 1,024 bytes. Its rows, the last dimension, are 128 bytes long and
 * swizzled: the 16-byte chunk c of row r is at position c ^ (r mod 8).
 *
 * <p>Sources: CUDA driver API, cuTensorMapEncodeTiled; CUDA C++ Programming Guide, tensor memory access.
 */
public final class TensorMap {
    private static final int ROW_BYTES = 128;
    private static final int ALIGNMENT = 16; // bytes
    private static final int MAX_DIMENSIONS = 5;
    private static final int MAX_BOX = 256; // elements per dimension
    private static final MemoryFormatOptional CONTIGUOUS =
            MemoryScope.keep(new MemoryFormatOptional(MemoryFormat.Contiguous));

    /**
     * The encoded values of a map. Arrays start with the innermost dimension.
     *
     * @param sizes elements per dimension
     * @param strides strides of all dimensions but the innermost, in bytes
     * @param box elements per dimension that one copy moves
     */
    private record TensorMapContent(long address, int type, long[] sizes, long[] strides, int[] box) {
        boolean equalTo(TensorMapContent other) {
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
     * Returns the map of a tensor for boxes of one size.
     *
     * @param tensor fp32, bf16 or fp16 with 2 to 5 dimensions, whose strides satisfy {@link #fits}
     * @param box elements per dimension, 1 to 256; the last dimension must have 128 bytes. If the box has more
     *     dimensions than the tensor, the map gets leading dimensions of size 1
     * @throws IllegalArgumentException if tensor or box do not satisfy this
     */
    public static TensorMap of(Tensor tensor, int... box) {
        DType dtype = TensorChecks.type("tensor", tensor, TensorChecks.KERNEL_TYPES);
        return of(tensor, dtype, code(dtype), box);
    }

    /** Returns the map {@link #of} an fp32 tensor whose elements TMA rounds to TF32 when it loads them. */
    public static TensorMap roundedToTf32(Tensor tensor, int... box) {
        DType dtype = TensorChecks.type("tensor", tensor, Set.of(DType.FLOAT32));
        return of(tensor, dtype, cudart.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, box);
    }

    private static TensorMap of(Tensor tensor, DType dtype, int type, int... box) {
        int n = box.length;
        int missing = n - (int) tensor.dim();
        if (tensor.dim() < 2 || n > MAX_DIMENSIONS || missing < 0) {
            throw new IllegalArgumentException("box must have at least as many dimensions as the tensor, 2 to "
                    + MAX_DIMENSIONS + ", not " + Arrays.toString(box) + " for shape "
                    + Arrays.toString(Tensors.shape(tensor)));
        }
        if (!fits(tensor)) {
            throw new IllegalArgumentException("tensor must have rows that are contiguous and aligned to " + ALIGNMENT
                    + " bytes; its shape is " + Arrays.toString(Tensors.shape(tensor)));
        }
        long[] sizes = new long[n];
        long[] strides = new long[n - 1];
        int[] reversed = new int[n];
        for (int i = 0; i < n; i++) {
            int from = n - 1 - i;
            sizes[i] = from < missing ? 1 : tensor.size(from - missing);
            reversed[i] = box[from];
            if (i > 0) {
                strides[i - 1] = sizes[i] == 1 ? ALIGNMENT : tensor.stride(from - missing) * dtype.bytes();
            }
            if (box[from] < 1 || box[from] > MAX_BOX) {
                throw new IllegalArgumentException(
                        "box must have 1 to " + MAX_BOX + " elements per dimension, not " + Arrays.toString(box));
            }
        }
        if (reversed[0] * dtype.bytes() != ROW_BYTES) {
            throw new IllegalArgumentException("box must have " + ROW_BYTES / dtype.bytes()
                    + " elements in its last dimension for " + dtype + ", not " + reversed[0]);
        }
        long address = tensor.data_ptr().address();
        return new TensorMap(tensor, new TensorMapContent(address, type, sizes, strides, reversed));
    }

    /**
     * Returns whether TMA can access a tensor: it has a dimension and is not empty, the last dimension is contiguous,
     * and the address and all other strides are positive multiples of 16 bytes. Dimensions of size 1 may have any
     * stride.
     */
    public static boolean fits(Tensor tensor) {
        Tensors.requireDefined("tensor", tensor);
        long bytes = tensor.element_size();
        int last = (int) tensor.dim() - 1;
        if (tensor.dim() == 0 || tensor.numel() == 0 || tensor.stride(last) != 1 && tensor.size(last) > 1) {
            return false;
        }
        boolean aligned = tensor.data_ptr().address() % ALIGNMENT == 0;
        for (int i = 0; i < last; i++) {
            long stride = tensor.stride(i) * bytes;
            aligned &= tensor.size(i) == 1 || stride > 0 && stride % ALIGNMENT == 0;
        }
        return aligned;
    }

    /** Returns the tensor itself if it {@link #fits}, otherwise a contiguous copy. */
    public static Tensor reachable(Tensor tensor) {
        return fits(tensor) ? tensor : tensor.clone(CONTIGUOUS);
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

    /** A buffer for the encoded map of one kernel parameter; each launch overwrites it. */
    static final class TensorMapBuffer {
        static final int BYTES = 128;
        private static final int BYTES_ALIGNMENT = 64;

        private final CUtensorMap map;
        private TensorMapContent written; // not the map itself, which would keep its tensor alive

        TensorMapBuffer() {
            BytePointer buffer = MemoryScope.keep(new BytePointer(BYTES + BYTES_ALIGNMENT));
            long excess = buffer.address() % BYTES_ALIGNMENT;
            Pointer aligned = MemoryScope.keep(buffer.getPointer(excess == 0 ? 0 : BYTES_ALIGNMENT - excess));
            map = MemoryScope.keep(new CUtensorMap(aligned));
        }

        CUtensorMap map() {
            return map;
        }

        /** Encodes a map, unless the buffer already has the same values. The GPU's context must be current. */
        void write(TensorMap next) {
            TensorMapContent content = next.content;
            if (written != null && content.equalTo(written)) {
                return;
            }
            int[] elementStrides = new int[content.box.length];
            Arrays.fill(elementStrides, 1);
            Driver.check(
                    cudart.cuTensorMapEncodeTiled(
                            map,
                            content.type,
                            content.sizes.length,
                            next.tensor.data_ptr(),
                            content.sizes,
                            content.strides,
                            content.box,
                            elementStrides,
                            cudart.CU_TENSOR_MAP_INTERLEAVE_NONE,
                            cudart.CU_TENSOR_MAP_SWIZZLE_128B,
                            cudart.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                            cudart.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                    "cuTensorMapEncodeTiled");
            written = content;
        }
    }
}
