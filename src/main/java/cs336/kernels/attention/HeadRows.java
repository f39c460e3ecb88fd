package cs336.kernels.attention;

import cs336.kernels.runtime.GridDim;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A tensor with a layout for kernels that access 16 bytes at a time: its rows are dense and 16-byte aligned.
 *
 * @param tensor [batch, heads, rows, width], or [heads, rows, width] for a batch of one
 */
record HeadRows(Tensor tensor) {
    private static final int ACCESS_BYTES = 16;
    private static final MemoryFormatOptional DEFAULT_FORMAT = MemoryScope.keep(new MemoryFormatOptional());

    /**
     * Returns the tensor itself if its layout fits, otherwise a copy.
     *
     * @param x [B, rows, d] or [B, H, rows, d]
     * @param width columns of the result, at least d; columns from d on are zero
     */
    static HeadRows of(Tensor x, int width) {
        if (fits(x, width)) {
            return new HeadRows(x);
        }
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

    /** Returns a buffer for a result with the shape of x: x itself if its layout fits. */
    static HeadRows forResult(Tensor x, int width) {
        return new HeadRows(fits(x, width) ? x : dense(x, width));
    }

    /** Copies the result into x, unless x is the buffer. */
    void copyTo(Tensor x) {
        if (x.data_ptr().address() != tensor.data_ptr().address()) {
            x.copy_(tensor.narrow(-1, 0, x.size(-1)));
        }
    }

    /** Returns the number of columns. */
    int width() {
        return (int) tensor.size(-1);
    }

    /** Returns the number of rows per head. */
    long rows() {
        return tensor.size(-2);
    }

    /** Returns the number of heads of the whole batch. */
    long heads() {
        return batch() * tensor.size(-3);
    }

    /** Returns the grid [heads, batch, blocks of rows], from which a block reads its head without a division. */
    GridDim grid(int blocks) {
        return new GridDim(Math.toIntExact(tensor.size(-3)), Math.toIntExact(batch()), blocks);
    }

    private long batch() {
        return tensor.dim() > 3 ? tensor.size(0) : 1;
    }

    /** Returns the strides of batch and head as {@code Long} and of rows as {@code Integer}, in elements. */
    Object[] strides() {
        return new Object[] {batch() > 1 ? tensor.stride(0) : 0L, tensor.stride(-3), (int) tensor.stride(-2)};
    }

    private static Tensor dense(Tensor x, int width) {
        long[] shape = Tensors.shape(x);
        shape[shape.length - 1] = width;
        return torch.empty(shape, x.options(), DEFAULT_FORMAT);
    }

    private static boolean fits(Tensor x, int width) {
        if (x.size(-1) != width || x.stride(-1) != 1) {
            return false;
        }
        if (x.data_ptr().address() % ACCESS_BYTES != 0) {
            return false;
        }
        long bytes = x.element_size();
        for (int axis = (int) x.dim() - 2; axis >= 0; axis--) {
            if (x.size(axis) > 1 && x.stride(axis) * bytes % ACCESS_BYTES != 0) {
                return false;
            }
        }
        return x.stride(-2) <= Integer.MAX_VALUE;
    }
}
