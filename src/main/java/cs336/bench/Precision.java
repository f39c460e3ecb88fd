package cs336.bench;

import cs336.basics.GradScaler;
import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.List;

/**
 * The number formats in which a model with fp32 parameters computes. Parameters, gradients and optimizer state stay
 * fp32; no format converts them.
 */
public enum Precision {
    /** All operations in fp32 with TF32 disabled: matrix multiplications use all 24 significant bits. */
    FP32("fp32", "fp32"),
    /**
     * All operations in fp32, but matrix multiplications on CUDA round their inputs to TF32 (11 significant bits). The
     * same as {@link #FP32} on the CPU.
     */
    TF32("tf32", "fp32"),
    /** Autocast to bf16. TF32 is disabled for the operations that autocast leaves in fp32. */
    BF16("bf16", "bf16"),
    /** Autocast to fp16 with loss scaling. TF32 is disabled for the operations that autocast leaves in fp32. */
    FP16("fp16", "fp16");

    private final String label;
    private final String autocast;

    /**
     * @param autocast name of the autocast dtype, because a {@link DType} would load libtorch, which the process of a
     *     sweep does not need
     */
    Precision(String label, String autocast) {
        this.label = label;
        this.autocast = autocast;
    }

    /** Returns whether fp32 matrix multiplications on CUDA may use TF32. */
    public boolean tf32() {
        return this == TF32;
    }

    /**
     * Returns a new loss scaler, which the caller closes. It has PyTorch's defaults for fp16, because small gradients
     * underflow in fp16, and is disabled for the other formats.
     */
    public GradScaler scaler(Device device) {
        return this == FP16 ? new GradScaler(device) : GradScaler.disabled();
    }

    /** Returns the dtype of the inputs of matrix multiplications; with TF32 they are fp32. */
    public DType compute() {
        return DType.parse(autocast);
    }

    /** Opens the autocast scope for the forward pass and the loss. */
    public Autocast autocast(Device device) {
        return Autocast.of(device, compute());
    }

    /**
     * Parses {@code fp32}, {@code tf32}, {@code bf16} or {@code fp16}.
     *
     * @throws IllegalArgumentException if the text is none of these
     */
    public static Precision parse(String label) {
        return ArgumentCheck.oneOf("dtype", label, List.of(values()));
    }

    @Override
    public String toString() {
        return label;
    }
}
