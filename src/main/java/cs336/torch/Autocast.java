package cs336.torch;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DeviceType;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * A scope of automatic mixed precision on this thread, PyTorch's {@code torch.autocast}: matrix multiplications run in
 * a lower-precision dtype. Operations that PyTorch lists as unsafe in 16 bits run in fp32: losses, and on CUDA also
 * norms and softmax. Parameters keep their dtype.
 *
 * <p>The scope encloses the forward pass and the loss. The backward pass is outside: it uses the dtypes of the forward
 * pass.
 */
public final class Autocast implements AutoCloseable {
    private static final OpenScopes OPEN = new OpenScopes("an Autocast scope");

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
        OPEN.add(this);
    }

    /**
     * Opens a scope, which must be closed on the same thread. {@link DType#FLOAT32} disables autocast inside, so that
     * full and mixed precision share one code path.
     *
     * @throws IllegalArgumentException if the dtype is not fp32, bf16 or fp16
     */
    public static Autocast of(Device device, DType dtype) {
        if (dtype != DType.FLOAT32 && dtype != DType.BFLOAT16 && dtype != DType.FLOAT16) {
            throw new IllegalArgumentException("dtype of autocast must be fp32, bf16 or fp16, not " + dtype);
        }
        return new Autocast(device, dtype);
    }

    /**
     * Casts a tensor as autocast casts the operands of a matrix multiplication: to the autocast dtype if autocast is
     * enabled for its device. It does not cast fp64 and integer tensors. Custom operations call this method, because
     * autocast does not know them.
     *
     * @return the tensor itself, or its differentiable cast in the caller's memory scope
     */
    public static Tensor operand(Tensor tensor) {
        return casts(tensor) ? tensor.to(torch.get_autocast_dtype(typeOf(tensor))) : tensor;
    }

    /** Returns whether autocast is enabled for the device of a tensor, and the tensor is fp32, bf16 or fp16. */
    public static boolean casts(Tensor tensor) {
        Tensors.requireDefined("tensor", tensor);
        boolean isCastable = tensor.is_floating_point() && tensor.element_size() <= Float.BYTES;
        return isCastable && isEnabled(tensor);
    }

    /**
     * Returns the dtype to which autocast converts the operands of matrix multiplications on this thread; fp32 if
     * autocast is not enabled for the device.
     */
    public static DType dtype(Device device) {
        DeviceType type = device.isCuda() ? DeviceType.CUDA : DeviceType.CPU;
        if (!torch.is_autocast_enabled(type)) {
            return DType.FLOAT32;
        }
        return torch.get_autocast_dtype(type).value == DType.BFLOAT16.scalarType().value
                ? DType.BFLOAT16
                : DType.FLOAT16;
    }

    /** Returns whether autocast is enabled for the device of a tensor. */
    public static boolean isEnabled(Tensor tensor) {
        Tensors.requireDefined("tensor", tensor);
        return torch.is_autocast_enabled(typeOf(tensor));
    }

    private static DeviceType typeOf(Tensor tensor) {
        return tensor.is_cuda() ? DeviceType.CUDA : DeviceType.CPU;
    }

    /** Returns the autocast dtypes of this thread for CPU and CUDA as text, for cache keys. */
    public static String state() {
        Torch.load();
        var text = new StringBuilder();
        for (DeviceType type : new DeviceType[] {DeviceType.CPU, DeviceType.CUDA}) {
            boolean enabled = torch.is_autocast_enabled(type);
            text.append(type)
                    .append('=')
                    .append(enabled ? torch.get_autocast_dtype(type) : "off")
                    .append(' ');
        }
        return text.toString();
    }

    /**
     * Restores the previous mode.
     *
     * @throws IllegalStateException on another thread, or before a scope inside this one is closed
     */
    @Override
    public void close() {
        if (!open) {
            return;
        }
        OPEN.remove(this);
        open = false;
        // Autocast caches casts of parameters. The cache is stale once the parameters change.
        if (torch.decrement_nesting() == 0) {
            torch.clear_cache();
        }
        torch.set_autocast_enabled(type, wasEnabled);
        torch.set_autocast_dtype(type, previousDtype);
    }
}
