package cs336.kernels.gemm;

import cs336.torch.DType;
import org.bytedeco.pytorch.Tensor;

/** What the kernels require of fp32 matrices, whose lines of contiguous elements they access in pieces of 16 bytes. */
final class GemmOperands {
    static final int VECTOR = 4; // elements per access of 16 bytes

    private GemmOperands() {}

    /**
     * Returns whether a matrix consists of lines of contiguous elements, rows or columns, that do not overlap and that
     * begin and end at multiples of 16 bytes.
     *
     * @param shape rows and columns
     * @param offset position of the first element after an address that is a multiple of 16 bytes, in elements
     */
    static boolean areLinesAligned(long[] shape, long[] strides, long offset) {
        int lines = strides[1] == 1 ? 0 : 1; // the dimension from one line to the next
        return strides[1 - lines] == 1
                && strides[lines] >= shape[1 - lines]
                && strides[lines] % VECTOR == 0
                && strides[lines] <= Integer.MAX_VALUE
                && shape[1 - lines] % VECTOR == 0
                && offset % VECTOR == 0;
    }

    /** Returns the tensor or, if its first element is not 16-byte aligned, a copy. */
    static Tensor aligned(Tensor x) {
        return x.data_ptr().address() % (VECTOR * DType.FLOAT32.bytes()) == 0 ? x : x.clone();
    }
}
