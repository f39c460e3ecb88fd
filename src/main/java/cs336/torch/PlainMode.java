package cs336.torch;

import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DeviceType;

/** A scope for the passes of an {@link AutogradFunction}: autocast is off on all devices, and grad mode is set. */
final class PlainMode implements AutoCloseable {
    private final boolean previousGradMode = GradMode.is_enabled();
    private final boolean hadCpuAutocast = torch.is_autocast_enabled(DeviceType.CPU);
    private final boolean hadCudaAutocast = torch.is_autocast_enabled(DeviceType.CUDA);

    private PlainMode(boolean gradMode) {
        GradMode.set_enabled(gradMode);
        if (hadCpuAutocast) {
            torch.set_autocast_enabled(DeviceType.CPU, false);
        }
        if (hadCudaAutocast) {
            torch.set_autocast_enabled(DeviceType.CUDA, false);
        }
    }

    /** Opens a scope, which must be closed on the same thread, with grad mode on or off. */
    static PlainMode withGradMode(boolean gradMode) {
        return new PlainMode(gradMode);
    }

    @Override
    public void close() {
        GradMode.set_enabled(previousGradMode);
        if (hadCpuAutocast) {
            torch.set_autocast_enabled(DeviceType.CPU, true);
        }
        if (hadCudaAutocast) {
            torch.set_autocast_enabled(DeviceType.CUDA, true);
        }
    }
}
