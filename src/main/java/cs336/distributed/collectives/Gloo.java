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

/** A factory of c10d process groups with Gloo. */
final class Gloo {
    /** Number of threads, and so of concurrent collectives; PyTorch's default. */
    private static final int THREADS = 2;

    /** Environment variable that selects the network interface, as in every program that uses Gloo. */
    private static final String INTERFACE = "GLOO_SOCKET_IFNAME";

    private Gloo() {}

    /** Connects to all other ranks. The caller closes the group. */
    static ProcessGroupGloo connect(Rendezvous rendezvous) {
        NativeCache.load(torch_gloo.class);
        World world = rendezvous.world();
        try (var scope = MemoryScope.open()) {
            var options = ProcessGroupGloo.Options.create(Rendezvous.milliseconds(rendezvous.timeout()));
            options.devices(new GlooDeviceVector(network(world)));
            options.threads(THREADS);
            return MemoryScope.keep(new ProcessGroupGloo(
                    rendezvous.store(), rendezvous.rank(), rendezvous.members().size(), options));
        }
    }

    private static Device network(World world) {
        String chosen = System.getenv(INTERFACE);
        return chosen == null || chosen.isBlank()
                ? ProcessGroupGloo.createDeviceForHostname(ownAddress(world))
                : ProcessGroupGloo.createDeviceForInterface(chosen.strip().split(",")[0]);
    }

    /**
     * Returns the local address of the route to the master, at which other ranks reach this process. Connecting a
     * datagram socket sends no packet.
     */
    static String ownAddress(World world) {
        try (var socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress(InetAddress.getByName(world.masterAddress()), world.masterPort()));
            InetAddress own = socket.getLocalAddress();
            // Some machines resolve their own name to a loopback address, which other machines cannot reach.
            boolean severalMachines = world.localSize() < world.size();
            return (own.isLoopbackAddress() && severalMachines ? externalAddress(own) : own).getHostAddress();
        } catch (UnknownHostException e) {
            throw new CollectiveFailure(
                    "MASTER_ADDR must be the name or address of a machine, not '" + world.masterAddress() + "'", e);
        } catch (SocketException e) {
            throw new UncheckedIOException("no route to MASTER_ADDR " + world.masterAddress(), e);
        }
    }

    private static InetAddress externalAddress(InetAddress fallback) throws SocketException {
        return NetworkInterface.networkInterfaces()
                .flatMap(NetworkInterface::inetAddresses)
                .filter(address -> address instanceof Inet4Address)
                .filter(address -> !address.isLoopbackAddress() && !address.isLinkLocalAddress())
                .findFirst()
                .orElse(fallback);
    }
}
