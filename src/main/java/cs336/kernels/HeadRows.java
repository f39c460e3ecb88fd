package cs336.kernels;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A tensor of heads as kernels that move 16 bytes at a time can take it: its rows are dense, and begin at multiples of 16 bytes.
 *
 * @param tensor [batch, heads, rows, width]
 */
record HeadRows(Tensor tensor) {
    private static final int ACCESS = 16; // bytes
    private static final int LAST = 3;
    private static final MemoryFormatOptional DENSE = MemoryScope.keep(new MemoryFormatOptional());

    /**
     * The tensor itself where it fits, otherwise a copy.
     *
     * @param x [B, rows, d] or [B, H, rows, d]
     * @param width at least d; what is wider is zero
     */
    static HeadRows of(Tensor x, int width) {
        Tensor heads = withHeads(x);
        if (fits(heads, width)) return new HeadRows(heads);
        Tensor copy = dense(heads, width);
        long d = heads.size(LAST);
        copy.narrow(LAST, 0, d).copy_(heads);
        if (d < width) copy.narrow(LAST, d, width - d).zero_();
        return new HeadRows(copy);
    }

    /** A place for a result like x: x itself where it fits. */
    static HeadRows forResult(Tensor x, int width) {
        Tensor heads = withHeads(x);
        return new HeadRows(fits(heads, width) ? heads : dense(heads, width));
    }

    /** Puts the result where it is wanted, unless this is that place. */
    void copyTo(Tensor x) {
        Tensor heads = withHeads(x);
        if (heads.data_ptr().address() != tensor.data_ptr().address()) {
            heads.copy_(tensor.narrow(LAST, 0, heads.size(LAST)));
        }
    }

    int width() {
        return (int) tensor.size(LAST);
    }

    long rows() {
        return tensor.size(2);
    }

    /** Heads of all sequences. */
    long heads() {
        return tensor.size(0) * tensor.size(1);
    }

    /** [heads, batch, blocks of rows]: a block of a kernel then finds its head without a division. */
    Grid grid(int blocks) {
        return new Grid(Math.toIntExact(tensor.size(1)), Math.toIntExact(tensor.size(0)), blocks);
    }

    /** From batch to batch and from head to head as {@code Long}, from row to row as {@code Integer}, in elements. */
    Object[] strides() {
        return new Object[] {tensor.stride(0), tensor.stride(1), (int) tensor.stride(2)};
    }

    private static Tensor withHeads(Tensor x) {
        return x.dim() == 3 ? x.unsqueeze(0) : x;
    }

    private static Tensor dense(Tensor heads, int width) {
        return torch.empty(new long[] {heads.size(0), heads.size(1), heads.size(2), width}, heads.options(), DENSE);
    }

    private static boolean fits(Tensor heads, int width) {
        if (heads.size(LAST) != width || heads.stride(LAST) != 1) return false;
        if (heads.data_ptr().address() % ACCESS != 0) return false;
        int bytes = DType.of(heads).bytes();
        for (int axis = 0; axis < LAST; axis++) {
            if (heads.size(axis) > 1 && heads.stride(axis) * bytes % ACCESS != 0) return false;
        }
        return heads.stride(2) <= Integer.MAX_VALUE;
    }
}
