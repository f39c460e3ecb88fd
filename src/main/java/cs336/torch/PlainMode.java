package cs336.torch;

import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DeviceType;

/**
 * The modes in which code of a {@link AutogradFunction} runs: autocast off on every device, and a graph recorded or
 * not.
 */
final class PlainMode implements AutoCloseable {
    private final boolean wasRecording = GradMode.is_enabled();
    private final boolean wasNarrowOnCpu = torch.is_autocast_enabled(DeviceType.CPU);
    private final boolean wasNarrowOnCuda = torch.is_autocast_enabled(DeviceType.CUDA);

    private PlainMode(boolean recording) {
        GradMode.set_enabled(recording);
        if (wasNarrowOnCpu) {
            torch.set_autocast_enabled(DeviceType.CPU, false);
        }
        if (wasNarrowOnCuda) {
            torch.set_autocast_enabled(DeviceType.CUDA, false);
        }
    }

    /** Opens a scope; close it on the same thread. */
    static PlainMode recording(boolean recording) {
        return new PlainMode(recording);
    }

    @Override
    public void close() {
        GradMode.set_enabled(wasRecording);
        if (wasNarrowOnCpu) {
            torch.set_autocast_enabled(DeviceType.CPU, true);
        }
        if (wasNarrowOnCuda) {
            torch.set_autocast_enabled(DeviceType.CUDA, true);
        }
    }
}
