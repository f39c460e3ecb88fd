package cs336.distributed.collectives;

import cs336.torch.MemoryScope;
import cs336.torch.NativeCache;
import java.io.UncheckedIOException;
import java.net.DatagramSocket;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.UnknownHostException;
import org.bytedeco.pytorch.GlooDeviceVector;
import org.bytedeco.pytorch.ProcessGroupGloo;
import org.bytedeco.pytorch.global.torch_gloo;
import org.bytedeco.pytorch.gloo.Device;

/** Gloo's side of a process group. */
final class Gloo {
    /** Collectives that run at the same time, as PyTorch has it. */
    private static final int THREADS = 2;

    /** The user's choice of a network, as in all programs that use Gloo. */
    private static final String INTERFACE = "GLOO_SOCKET_IFNAME";

    private Gloo() {}

    /** Connects all ranks with each other; lives until it is closed. */
    static ProcessGroupGloo connect(Rendezvous meeting) {
        NativeCache.load(torch_gloo.class);
        World world = meeting.world();
        try (var scope = MemoryScope.open()) {
            var options = ProcessGroupGloo.Options.create(Rendezvous.milliseconds(meeting.timeout()));
            options.devices(new GlooDeviceVector(network(world)));
            options.threads(THREADS);
            return MemoryScope.keep(new ProcessGroupGloo(meeting.store(), world.rank(), world.size(), options));
        }
    }

    private static Device network(World world) {
        String chosen = System.getenv(INTERFACE);
        return chosen == null || chosen.isBlank()
                ? ProcessGroupGloo.createDeviceForHostname(ownAddress(world))
                : ProcessGroupGloo.createDeviceForInterface(chosen.strip().split(",")[0]);
    }

    /**
     * The address that this process has on the way to the master, which is where the others reach it. Connecting a
     * datagram socket sends nothing.
     */
    static String ownAddress(World world) {
        try (var socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress(InetAddress.getByName(world.masterAddress()), world.masterPort()));
            InetAddress own = socket.getLocalAddress();
            // Some machines know their own name by a loopback address, where others cannot reach them.
            boolean others = world.localSize() < world.size();
            return (own.isLoopbackAddress() && others ? outward(own) : own).getHostAddress();
        } catch (UnknownHostException e) {
            throw new CollectiveFailure("MASTER_ADDR '" + world.masterAddress() + "' is the name of no machine", e);
        } catch (SocketException e) {
            throw new UncheckedIOException("no way leads to " + world.masterAddress(), e);
        }
    }

    private static InetAddress outward(InetAddress otherwise) throws SocketException {
        return NetworkInterface.networkInterfaces()
                .flatMap(NetworkInterface::inetAddresses)
                .filter(address -> address instanceof Inet4Address)
                .filter(address -> !address.isLoopbackAddress() && !address.isLinkLocalAddress())
                .findFirst()
                .orElse(otherwise);
    }
}
