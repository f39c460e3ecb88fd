package cs336.torch;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DeviceType;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * While open, operations that gain from it (matrix products above all) run in a narrower type on this thread, and those
 * that need fp32 (losses, norms, softmax) run in fp32. Parameters stay as they are. PyTorch's {@code torch.autocast}.
 *
 * <p>Put forward pass and loss inside; the backward pass follows the types of the forward pass and stands outside.
 */
public final class Autocast implements AutoCloseable {
    private final DeviceType type;
    private final boolean wasEnabled;
    private final ScalarType previousDtype;
    private boolean open = true;

    private Autocast(Device device, DType dtype) {
        type = device.isCuda() ? DeviceType.CUDA : DeviceType.CPU;
        wasEnabled = torch.is_autocast_enabled(type);
        previousDtype = torch.get_autocast_dtype(type);
        boolean narrow = dtype != DType.FLOAT32;
        if (narrow) {
            torch.set_autocast_dtype(type, dtype.scalarType());
        }
        torch.set_autocast_enabled(type, narrow);
        torch.increment_nesting();
    }

    /**
     * Opens a scope; close it on the same thread. {@link DType#FLOAT32} switches autocast off inside, so that one code
     * path serves full and mixed precision.
     *
     * @throws IllegalArgumentException if the type is not fp32, bf16 or fp16
     */
    public static Autocast of(Device device, DType dtype) {
        if (dtype != DType.FLOAT32 && dtype != DType.BFLOAT16 && dtype != DType.FLOAT16) {
            throw new IllegalArgumentException("dtype of autocast must be fp32, bf16 or fp16, not " + dtype);
        }
        return new Autocast(device, dtype);
    }

    /**
     * A tensor as autocast hands it to a matrix product: in the narrow type while a scope is open for its device, else
     * as it is; fp64 and integers always as they are. For operations that PyTorch's list does not know.
     *
     * @return the tensor itself, or a copy in the caller's memory scope; gradients flow through
     */
    public static Tensor operand(Tensor tensor) {
        DeviceType type = tensor.is_cuda() ? DeviceType.CUDA : DeviceType.CPU;
        boolean takesPart = tensor.is_floating_point() && tensor.element_size() <= Float.BYTES;
        return takesPart && torch.is_autocast_enabled(type) ? tensor.to(torch.get_autocast_dtype(type)) : tensor;
    }

    @Override
    public void close() {
        if (!open) {
            return;
        }
        open = false;
        // The casts of parameters are cached while any scope is open, and are wrong once the parameters change.
        if (torch.decrement_nesting() == 0) {
            torch.clear_cache();
        }
        torch.set_autocast_enabled(type, wasEnabled);
        torch.set_autocast_dtype(type, previousDtype);
    }
}
