package cs336.distributed.training;

import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Torch;
import org.bytedeco.pytorch.Storage;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The memory of a tensor, freed and allocated again while views and the autograd graph still refer to the tensor:
 * {@code storage.resize_} of PyTorch. All tensors that share the storage see the new memory. A tensor whose memory is
 * freed keeps its shape, but its values must not be read.
 */
final class TensorStorage {
    static {
        Torch.load();
    }

    private TensorStorage() {}

    /** Frees the memory. Kernels in the current stream may still use it. */
    public static void free(Tensor tensor) {
        try (var scope = MemoryScope.open()) {
            Storage storage = tensor.storage();
            storage.mutable_data_ptr().clear();
            storage.set_nbytes(0);
        }
    }

    /**
     * Allocates uninitialized memory, after {@link #free}.
     *
     * @param tensor contiguous, and as large as its storage was
     */
    public static void allocate(Tensor tensor) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Storage fresh = torch.empty_like(tensor).storage();
            Storage storage = tensor.storage();
            storage.set_data_ptr_noswap(fresh.mutable_data_ptr());
            storage.set_nbytes(fresh.nbytes());
        }
    }
}
