package cs336.scaling.memory;

import cs336.torch.DType;
import java.util.Locale;

/**
 * Tensors of one kind, for memory accounting.
 *
 * @param name content of the tensors
 * @param shape shape of each tensor, in the letters of the class that lists them, such as {@code B × T × T}
 * @param dtype type of their elements
 * @param count number of tensors
 * @param elements number of elements of each tensor
 * @param purpose use of the tensors
 */
public record TensorMemory(String name, String shape, DType dtype, long count, long elements, TensorPurpose purpose) {
    private static final long SMALLEST_BLOCK = 512;
    private static final long SMALL_REQUEST = 1 << 20; // up to this size a block comes from a small segment
    private static final long LARGE_SEGMENT = 20 << 20;
    private static final long OWN_SEGMENT = 10 << 20; // from this size on a block gets a separate segment
    private static final long SEGMENT_ROUNDING = 2 << 20;
    private static final long KEPT_REMAINDER = 1 << 20; // the rest of a segment is not split off up to this size

    /**
     * The use of a tensor in a predicted peak. Unlike the measured {@code MemoryCategory}, it counts the casts of
     * autocast as parameters and temporary tensors as activations.
     */
    public enum TensorPurpose {
        /** Parameters, and autocast's casts of them. */
        PARAMETERS,
        GRADIENTS,
        OPTIMIZER_STATE,
        /** Tensors that the blocks save for the backward pass, and temporary tensors of both passes. */
        ACTIVATIONS,
        LOGITS_AND_LOSS,
        /** Memory that libraries take from PyTorch's allocator. */
        WORKSPACES,
        /** Gathered parameters, and gradients before they are reduced. */
        COMMUNICATION_BUFFERS;

        /** Returns the name in words, such as {@code logits and loss}. */
        @Override
        public String toString() {
            return name().toLowerCase(Locale.ROOT).replace('_', ' ');
        }
    }

    /** Creates tensors that are {@link TensorPurpose#ACTIVATIONS}. */
    public TensorMemory(String name, String shape, DType dtype, long count, long elements) {
        this(name, shape, dtype, count, elements, TensorPurpose.ACTIVATIONS);
    }

    /** Returns the same tensors with another purpose. */
    public TensorMemory as(TensorPurpose other) {
        return new TensorMemory(name, shape, dtype, count, elements, other);
    }

    /** Returns the size of all {@code count} tensors in bytes. */
    public long bytes() {
        return Math.multiplyExact(Math.multiplyExact(count, elements), (long) dtype.bytes());
    }

    /**
     * Returns the bytes that PyTorch's caching allocator for CUDA counts for the tensors, if each block is cut from a
     * new segment. Sizes are rounded up to 512 bytes. A block from 10 MiB on has a separate segment, a multiple of 2
     * MiB; smaller blocks above 1 MiB share segments of 20 MiB. If at most 1 MiB of a segment remains, the last block
     * gets it.
     *
     * <p>Source: {@code c10/cuda/CUDACachingAllocator.cpp} of PyTorch.
     */
    public long allocatedBytes() {
        long block = roundedUp(Math.multiplyExact(elements, (long) dtype.bytes()), SMALLEST_BLOCK);
        if (block <= SMALL_REQUEST) {
            return Math.multiplyExact(count, block);
        }
        boolean own = block >= OWN_SEGMENT;
        long segment = own ? roundedUp(block, SEGMENT_ROUNDING) : LARGE_SEGMENT;
        long blocks = segment / block;
        long remainder = segment - blocks * block;
        long last = remainder <= KEPT_REMAINDER ? remainder : 0;
        return Math.addExact(Math.multiplyExact(count, block), count / blocks * last);
    }

    private static long roundedUp(long bytes, long unit) {
        return Math.addExact(bytes, unit - 1) / unit * unit;
    }

    /** Returns the same kind of tensor with n times the count. */
    TensorMemory times(long n) {
        return new TensorMemory(name, shape, dtype, n * count, elements, purpose);
    }
}
