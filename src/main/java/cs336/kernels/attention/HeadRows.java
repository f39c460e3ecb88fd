package cs336.kernels.attention;

import cs336.kernels.runtime.GridDim;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A tensor of heads as kernels that move 16 bytes at a time can take it: its rows are dense, and begin at multiples of
 * 16 bytes.
 *
 * @param tensor [batch, heads, rows, width], or [heads, rows, width] of a batch of one
 */
record HeadRows(Tensor tensor) {
    private static final int ACCESS = 16; // bytes
    private static final MemoryFormatOptional DENSE = MemoryScope.keep(new MemoryFormatOptional());

    /**
     * The tensor itself where it fits, otherwise a copy.
     *
     * @param x [B, rows, d] or [B, H, rows, d]
     * @param width at least d; what is wider is zero
     */
    static HeadRows of(Tensor x, int width) {
        if (fits(x, width)) return new HeadRows(x);
        Tensor copy = dense(x, width);
        long d = x.size(-1);
        if (d < width) {
            copy.narrow(-1, 0, d).copy_(x);
            copy.narrow(-1, d, width - d).zero_();
        } else {
            copy.copy_(x);
        }
        return new HeadRows(copy);
    }

    /** A place for a result like x: x itself where it fits. */
    static HeadRows forResult(Tensor x, int width) {
        return new HeadRows(fits(x, width) ? x : dense(x, width));
    }

    /** Puts the result where it is wanted, unless this is that place. */
    void copyTo(Tensor x) {
        if (x.data_ptr().address() != tensor.data_ptr().address()) {
            x.copy_(tensor.narrow(-1, 0, x.size(-1)));
        }
    }

    int width() {
        return (int) tensor.size(-1);
    }

    long rows() {
        return tensor.size(-2);
    }

    /** Heads of all sequences. */
    long heads() {
        return batch() * tensor.size(-3);
    }

    /** [heads, batch, blocks of rows]: a block of a kernel then finds its head without a division. */
    GridDim grid(int blocks) {
        return new GridDim(Math.toIntExact(tensor.size(-3)), Math.toIntExact(batch()), blocks);
    }

    private long batch() {
        return tensor.dim() > 3 ? tensor.size(0) : 1;
    }

    /** From batch to batch and from head to head as {@code Long}, from row to row as {@code Integer}, in elements. */
    Object[] strides() {
        return new Object[] {batch() > 1 ? tensor.stride(0) : 0L, tensor.stride(-3), (int) tensor.stride(-2)};
    }

    private static Tensor dense(Tensor x, int width) {
        long[] shape = Tensors.shape(x);
        shape[shape.length - 1] = width;
        return torch.empty(shape, x.options(), DENSE);
    }

    private static boolean fits(Tensor x, int width) {
        if (x.size(-1) != width || x.stride(-1) != 1) return false;
        if (x.data_ptr().address() % ACCESS != 0) return false;
        long bytes = x.element_size();
        for (int axis = (int) x.dim() - 2; axis >= 0; axis--) {
            if (x.size(axis) > 1 && x.stride(axis) * bytes % ACCESS != 0) return false;
        }
        return x.stride(-2) <= Integer.MAX_VALUE;
    }
}
