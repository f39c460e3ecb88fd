package cs336.scaling;

import cs336.torch.DType;

/**
 * Tensors of one kind, for memory accounting.
 *
 * @param name content of the tensors
 * @param shape shape of each tensor, in the letters of the class that lists them, such as {@code B × T × T}
 * @param dtype type of their elements
 * @param count number of tensors
 * @param elements number of elements of each tensor
 */
public record TensorMemory(String name, String shape, DType dtype, long count, long elements) {
    /** Returns the size of all {@code count} tensors in bytes. */
    public long bytes() {
        return Math.multiplyExact(Math.multiplyExact(count, elements), (long) dtype.bytes());
    }

    /** Returns the same kind of tensor with n times the count. */
    TensorMemory times(long n) {
        return new TensorMemory(name, shape, dtype, n * count, elements);
    }
}
