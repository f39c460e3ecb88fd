package cs336.torch;

import java.util.Locale;

/** The kinds of device that tensors can be on. */
public enum DeviceKind {
    CPU,
    CUDA;

    /** Returns the name on the command line and in PyTorch: {@code cpu} or {@code cuda}. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
