package cs336.compile.program;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.LongOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The layout of a tensor in its storage: element (i₀, i₁, …) is at offset + Σ iₖ · strides[k].
 *
 * @param dtype the element type
 * @param shape the sizes of the dimensions
 * @param strides the strides in elements of the dtype
 * @param offset the first element's position in the storage, in elements of the dtype
 * @param conjugated whether the elements are read as complex conjugates
 */
public record Layout(DType dtype, long[] shape, long[] strides, long offset, boolean conjugated) {
    /**
     * Returns the layout of a tensor.
     *
     * @throws IllegalArgumentException if the tensor is null, closed or undefined, or of a dtype that {@link DType}
     *     does not have
     */
    public static Layout of(Tensor tensor) {
        long[] shape = Tensors.shape(tensor);
        long[] strides = new long[shape.length];
        Arrays.setAll(strides, tensor::stride);
        return new Layout(DType.of(tensor), shape, strides, tensor.storage_offset(), tensor.is_conj());
    }

    /** Returns the layout of a contiguous tensor at the beginning of its storage. */
    public static Layout contiguous(DType dtype, long... shape) {
        int[] order = new int[shape.length];
        Arrays.setAll(order, i -> i);
        return dense(dtype, order, shape);
    }

    /**
     * Returns the layout of a tensor without gaps at the beginning of its storage.
     *
     * @param order the dimensions from the slowest to the fastest
     */
    public static Layout dense(DType dtype, int[] order, long... shape) {
        long[] strides = new long[shape.length];
        long stride = 1;
        for (int i = order.length - 1; i >= 0; i--) {
            strides[order[i]] = stride;
            stride *= Math.max(1, shape[order[i]]);
        }
        return new Layout(dtype, shape, strides, 0, false);
    }

    /** Returns an uninitialized tensor with this dtype, shape and strides in a storage of its own. */
    public Tensor empty(Device device) {
        return torch.empty_strided(shape, strides, device.options(dtype));
    }

    /** Returns the tensor with this layout, not conjugated, in the storage of a tensor of the same dtype. */
    public Tensor view(Tensor memory) {
        return torch.as_strided(memory, shape, strides, new LongOptional(offset));
    }

    /** Returns the layout of a complex tensor's real and imaginary parts, which are its new last dimension. */
    public Layout asReal() {
        int rank = shape.length;
        long[] realShape = Arrays.copyOf(shape, rank + 1);
        long[] realStrides = Arrays.stream(Arrays.copyOf(strides, rank + 1))
                .map(stride -> 2 * stride)
                .toArray();
        realShape[rank] = 2;
        realStrides[rank] = 1;
        return new Layout(DType.FLOAT32, realShape, realStrides, 2 * offset, false);
    }

    /** Returns this layout with another offset. */
    public Layout withOffset(long newOffset) {
        return new Layout(dtype, shape, strides, newOffset, conjugated);
    }

    /** Returns the position after the last element in the storage, in elements of the dtype. */
    public long end() {
        long end = offset + 1;
        for (int i = 0; i < shape.length; i++) {
            end += (shape[i] - 1) * strides[i];
        }
        return end;
    }

    /** Returns the number of elements. */
    public long elements() {
        long elements = 1;
        for (long size : shape) {
            elements = Math.multiplyExact(elements, size);
        }
        return elements;
    }

    /** Returns the number of bytes of the elements. */
    public long bytes() {
        return elements() * dtype.bytes();
    }

    /** Returns the number of bytes of the different elements: a dimension with stride 0 repeats them. */
    public long distinctBytes() {
        long bytes = dtype.bytes();
        for (int i = 0; i < shape.length; i++) {
            bytes *= strides[i] == 0 ? 1 : shape[i];
        }
        return bytes;
    }

    /** Returns whether the elements are in row-major order without gaps; dimensions of size 1 may have any stride. */
    public boolean isContiguous() {
        long stride = 1;
        for (int i = shape.length - 1; i >= 0; i--) {
            if (shape[i] != 1 && strides[i] != stride) {
                return elements() == 0;
            }
            stride *= shape[i];
        }
        return true;
    }

    /** Returns whether the elements fill consecutive positions, in any order of the dimensions, each once. */
    public boolean isDense() {
        return permuted(storageOrder()).isContiguous();
    }

    /** Returns the dimensions from the largest to the smallest stride; equal strides keep their order. */
    public int[] storageOrder() {
        int[] order = new int[shape.length];
        for (int dim = 0; dim < order.length; dim++) {
            int place = dim;
            for (; place > 0 && strides[order[place - 1]] < strides[dim]; place--) {
                order[place] = order[place - 1];
            }
            order[place] = dim;
        }
        return order;
    }

    /**
     * Returns this layout with its dimensions in another order.
     *
     * @param order for each new dimension, the index of the old one
     */
    public Layout permuted(int[] order) {
        long[] newShape = new long[order.length];
        long[] newStrides = new long[order.length];
        for (int i = 0; i < order.length; i++) {
            newShape[i] = shape[order[i]];
            newStrides[i] = strides[order[i]];
        }
        return new Layout(dtype, newShape, newStrides, offset, conjugated);
    }

    /**
     * Returns a layout of a tensor that was copied: it has the elements that this layout reads from the copy. An
     * operation can then read the original tensor instead of the copy.
     *
     * @param copy the layout of the copy
     * @param source the layout of the original tensor, in the copy's shape
     * @return null if no strides describe these elements of the original, for example because a dimension of this
     *     layout merges several dimensions of the copy
     */
    public Layout throughCopy(Layout copy, Layout source) {
        boolean isDenseCopy = copy.isDense() && copy.elements() > 0 && Arrays.equals(copy.shape, source.shape);
        if (!isDenseCopy || conjugated || source.conjugated || dtype != copy.dtype) {
            return null;
        }
        long[] last = new long[copy.shape.length]; // the largest index in each dimension of the copy
        long start = source.offset;
        long rest = offset - copy.offset;
        for (int dim : copy.storageOrder()) {
            if (copy.shape[dim] > 1) {
                last[dim] = rest / copy.strides[dim];
                rest %= copy.strides[dim];
                start += last[dim] * source.strides[dim];
            }
        }
        long[] newStrides = new long[shape.length];
        long outermost = 1; // a stride for dimensions of size 1
        for (int i = 0; i < shape.length; i++) {
            if (shape[i] == 1 || strides[i] == 0) {
                continue;
            }
            long stride = strides[i];
            int dim = Arrays.stream(copy.storageOrder())
                    .filter(d -> copy.shape[d] > 1 && copy.strides[d] <= stride)
                    .findFirst()
                    .orElse(-1);
            if (dim < 0 || stride % copy.strides[dim] != 0) {
                return null;
            }
            long step = stride / copy.strides[dim];
            last[dim] += (shape[i] - 1) * step;
            newStrides[i] = step * source.strides[dim];
            outermost = Math.max(outermost, shape[i] * newStrides[i]);
        }
        if (IntStream.range(0, last.length).anyMatch(dim -> last[dim] >= copy.shape[dim])) {
            return null;
        }
        for (int i = 0; i < shape.length; i++) {
            newStrides[i] = shape[i] == 1 ? outermost : newStrides[i];
        }
        return new Layout(source.dtype, shape, newStrides, start, false);
    }

    /**
     * Returns this layout broadcast to a shape with at least as many dimensions, by strides of 0.
     *
     * @throws IllegalArgumentException if a size is neither 1 nor that of the shape
     */
    public Layout broadcastTo(long[] wide) {
        long[] newStrides = new long[wide.length];
        int added = wide.length - shape.length;
        for (int i = 0; i < shape.length; i++) {
            boolean repeated = shape[i] == 1 && wide[added + i] != 1;
            if (!repeated && shape[i] != wide[added + i]) {
                throw new IllegalArgumentException(
                        Arrays.toString(shape) + " cannot be broadcast to " + Arrays.toString(wide));
            }
            newStrides[added + i] = repeated ? 0 : strides[i];
        }
        return new Layout(dtype, wide, newStrides, offset, conjugated);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Layout that
                && dtype == that.dtype
                && offset == that.offset
                && conjugated == that.conjugated
                && Arrays.equals(shape, that.shape)
                && Arrays.equals(strides, that.strides);
    }

    @Override
    public int hashCode() {
        return 31 * (31 * Arrays.hashCode(shape) + Arrays.hashCode(strides)) + Long.hashCode(offset) + dtype.ordinal();
    }

    /** Returns dtype and shape, followed by strides and offset if the layout is not contiguous. */
    @Override
    public String toString() {
        String text = dtype + Arrays.toString(shape);
        if (!isContiguous()) {
            text += " strides " + Arrays.toString(strides);
        }
        return text + (offset == 0 ? "" : " offset " + offset) + (conjugated ? " conjugated" : "");
    }
}
