package cs336.distributed.collectives;

import cs336.torch.Device;
import java.net.InetAddress;
import java.net.UnknownHostException;
import org.bytedeco.pytorch.global.torch_cuda;

/** Names that identify this machine and its GPUs among all ranks. */
public final class Host {
    private Host() {}

    static String name() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            String fromMessage = String.valueOf(e.getMessage()).split(":")[0];
            return fromMessage.isBlank() ? "localhost" : fromMessage;
        }
    }

    /** Returns a name of a GPU from its PCI address: two processes may see one GPU under different indices. */
    static String gpu(Device device) {
        return "GPU " + pciAddress(device);
    }

    /** Returns the PCI bus id of a GPU in the format of NVIDIA's tools, for example {@code 0000:3b:00.0}. */
    public static String busId(Device device) {
        return pciAddress(device) + ".0";
    }

    private static String pciAddress(Device device) {
        var properties = torch_cuda.getDeviceProperties((byte) device.index());
        return "%04x:%02x:%02x".formatted(properties.pciDomainID(), properties.pciBusID(), properties.pciDeviceID());
    }
}
