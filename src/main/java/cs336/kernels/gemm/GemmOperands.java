package cs336.kernels.gemm;

import cs336.kernels.runtime.Gpu;
import cs336.torch.DType;
import org.bytedeco.pytorch.Tensor;

/** Requirements of the kernels, which access contiguous elements in pieces of 16 bytes, on operands and on the GPU. */
final class GemmOperands {
    /** The shared memory of a block on Hopper GPUs. */
    static final int HOPPER_SHARED_BYTES = 227 * 1024;

    /** Alignment of buffers that TMA swizzles. */
    static final int SWIZZLE_ALIGNMENT = 1024;

    /** Size of the two barriers of a stage. */
    static final int BARRIER_BYTES = 16;

    private static final int ACCESS_BYTES = 16;

    private GemmOperands() {}

    /**
     * Returns whether a matrix consists of lines of contiguous elements, rows or columns, that do not overlap and that
     * begin and end at multiples of 16 bytes.
     *
     * @param shape rows and columns
     * @param offset position of the first element after an address that is a multiple of 16 bytes, in elements
     */
    static boolean areLinesAligned(DType type, long[] shape, long[] strides, long offset) {
        int vector = ACCESS_BYTES / type.bytes(); // elements per access
        int lines = strides[1] == 1 ? 0 : 1; // the dimension from one line to the next
        return strides[1 - lines] == 1
                && strides[lines] >= shape[1 - lines]
                && strides[lines] % vector == 0
                && strides[lines] <= Integer.MAX_VALUE
                && shape[1 - lines] % vector == 0
                && offset % vector == 0;
    }

    /** Returns whether a tensor is a matrix of {@linkplain #areLinesAligned aligned} rows. */
    static boolean areRowsAligned(DType type, long[] shape, long[] strides, long offset) {
        return shape.length == 2 && strides[1] == 1 && areLinesAligned(type, shape, strides, offset);
    }

    static boolean isHopper(Gpu gpu) {
        return gpu.architecture().major() == 9 && gpu.blockSharedBytes() >= HOPPER_SHARED_BYTES;
    }

    /** Returns the tensor or, if its first element is not 16-byte aligned, a copy. */
    static Tensor aligned(Tensor x) {
        return x.data_ptr().address() % ACCESS_BYTES == 0 ? x : x.clone();
    }
}
