package cs336.distributed.collectives;

import cs336.torch.Device;
import java.net.InetAddress;
import java.net.UnknownHostException;
import org.bytedeco.pytorch.global.torch_cuda;

/** What tells this machine and its cards from others. */
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

    /** A card's name by its place: two processes may see the same card under different numbers. */
    static String card(Device device) {
        return "card " + place(device);
    }

    /** The place of a card on its machine's PCI bus, as NVIDIA's tools take it. */
    public static String busId(Device device) {
        return place(device) + ".0";
    }

    private static String place(Device device) {
        var properties = torch_cuda.getDeviceProperties((byte) device.index());
        return "%04x:%02x:%02x".formatted(properties.pciDomainID(), properties.pciBusID(), properties.pciDeviceID());
    }
}
