package cs336.scaling;

import cs336.torch.DType;

/**
 * Tensors of one kind, for memory accounting.
 *
 * @param name what they hold
 * @param shape of each, in the letters of the class that lists them, such as {@code B × T × T}
 * @param dtype of their elements
 * @param count number of tensors
 * @param elements of each tensor
 */
public record TensorMemory(String name, String shape, DType dtype, long count, long elements) {
    /** Returns the size of all {@code count} tensors in bytes. */
    public long bytes() {
        return Math.multiplyExact(Math.multiplyExact(count, elements), (long) dtype.bytes());
    }

    /** Returns n times as many tensors. */
    TensorMemory times(long n) {
        return new TensorMemory(name, shape, dtype, n * count, elements);
    }
}
