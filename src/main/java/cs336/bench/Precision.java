package cs336.bench;

import cs336.basics.GradScaler;
import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import java.util.List;

/** In what the model computes. Parameters, gradients and optimizer state are fp32 in all of them. */
public enum Precision {
    /** All in fp32, with TF32 off: matrix products carry all 24 bits. */
    FP32("fp32", "fp32"),
    /**
     * All in fp32, but on CUDA matrix products round their inputs to the 11 significant bits of TF32. On the CPU, fp32.
     */
    TF32("tf32", "fp32"),
    /** Autocast to bf16, what it leaves in fp32 with TF32 off. */
    BF16("bf16", "bf16"),
    /** Autocast to fp16, what it leaves in fp32 with TF32 off, and a scaled loss. */
    FP16("fp16", "fp16");

    private final String label;
    private final String autocast;

    /** The type by its name: {@link DType} loads libtorch, which a sweep's leading process does not need. */
    Precision(String label, String autocast) {
        this.label = label;
        this.autocast = autocast;
    }

    /** Whether matrix products of fp32 tensors may round their inputs to TF32 on CUDA. */
    public boolean tf32() {
        return this == TF32;
    }

    /**
     * What scales the loss: PyTorch's defaults for fp16, whose range gradients would leave; disabled for all others.
     */
    public GradScaler scaler(Device device) {
        return this == FP16 ? new GradScaler(device) : GradScaler.disabled();
    }

    /** The scope in which forward pass and loss run. */
    public Autocast autocast(Device device) {
        return Autocast.of(device, DType.parse(autocast));
    }

    /**
     * Reads {@code fp32}, {@code tf32}, {@code bf16} or {@code fp16}.
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
