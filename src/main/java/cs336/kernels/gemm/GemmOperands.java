package cs336.kernels.gemm;

import cs336.torch.DType;
import org.bytedeco.pytorch.Tensor;

/** Requirements of the kernels on their operands, which they access in pieces of 16 bytes. */
final class GemmOperands {
    /** Rows whose order in shared memory {@link #inRowGroups} changes. */
    static final int ROW_GROUP = 8;

    private static final int ACCESS_BYTES = 16;

    private GemmOperands() {}

    /**
     * Returns whether a matrix consists of lines of contiguous elements, rows or columns, that do not overlap and that
     * begin and end at multiples of 16 bytes.
     *
     * @param shape rows and columns
     * @param strides distances between rows and between columns, in elements
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

    /**
     * Returns a view of a matrix with which TMA stores row 4·v + u of each eight rows as row 2·u + v, so that threads
     * that read four of those rows at the same time read different banks.
     *
     * @param x [rows, columns], where rows is a multiple of {@value #ROW_GROUP}
     * @return [rows / 8, 4, 2, columns]
     */
    static Tensor inRowGroups(Tensor x) {
        return x.view(x.size(0) / ROW_GROUP, 2, ROW_GROUP / 2, x.size(1)).permute(0, 2, 1, 3);
    }

    /** Returns the tensor or, if its first element is not 16-byte aligned, a copy. */
    static Tensor aligned(Tensor x) {
        return x.data_ptr().address() % ACCESS_BYTES == 0 ? x : x.clone();
    }
}
