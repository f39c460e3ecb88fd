package cs336.notebook;

import com.google.gson.Gson;
import io.github.spencerpark.jupyter.kernel.KernelConnectionProperties;
import io.github.spencerpark.jupyter.messages.HMACGenerator;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Stream;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;

/**
 * A trial run of the kernel: it executes one cell for a client in the same process, and ends. The script {@code cs336}
 * archives the classes that it loads, so that kernels start without parsing them.
 */
final class KernelTrialRun {
    private static final String CELL = "6 * 7";

    private KernelTrialRun() {}

    /** Runs the kernel, which ends this process. */
    public static void main(String[] args) throws Exception {
        KernelConnectionProperties properties = onFreePorts();
        Path file = Files.createTempFile("kernel", ".json");
        file.toFile().deleteOnExit();
        Files.writeString(file, new Gson().toJson(properties));
        var client = new Thread(() -> request(properties));
        client.setDaemon(true);
        client.start();
        JavaKernel.main(new String[] {file.toString()});
    }

    private static KernelConnectionProperties onFreePorts() throws IOException {
        int[] ports = freePorts();
        String key = UUID.randomUUID().toString(); // other users of the machine must not execute cells
        return new KernelConnectionProperties(
                "127.0.0.1", ports[0], ports[1], ports[2], ports[3], ports[4], "tcp", "hmac-sha256", key);
    }

    /** Returns five different ports that nobody listens on. */
    static int[] freePorts() throws IOException {
        var ports = new int[5];
        List<ServerSocket> sockets = new ArrayList<>();
        for (int i = 0; i < ports.length; i++) {
            sockets.add(new ServerSocket(0, 1, InetAddress.getLoopbackAddress()));
            ports[i] = sockets.get(i).getLocalPort();
        }
        for (ServerSocket socket : sockets) {
            socket.close();
        }
        return ports;
    }

    /** Requests the execution of the cell, and then the end of the kernel. */
    private static void request(KernelConnectionProperties properties) {
        try (ZMQ.Context context = ZMQ.context(1);
                ZMQ.Socket shell = context.socket(SocketType.DEALER)) {
            shell.connect("tcp://127.0.0.1:" + properties.getShellPort());
            HMACGenerator signer = properties.createHMACGenerator();
            send(shell, signer, "execute_request", Map.of("code", CELL, "stop_on_error", true));
            send(shell, signer, "shutdown_request", Map.of("restart", false));
            while (true) {
                shell.recv(); // until the process ends
            }
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void send(ZMQ.Socket socket, HMACGenerator signer, String type, Map<String, Object> content) {
        var header = Map.of(
                "msg_id", type,
                "msg_type", type,
                "session", "",
                "username", "",
                "version", "5.3",
                "date", "2026-01-01T00:00:00Z");
        byte[][] parts = Stream.of(header, Map.of(), Map.of(), content)
                .map(part -> new Gson().toJson(part).getBytes(StandardCharsets.UTF_8))
                .toArray(byte[][]::new);
        socket.sendMore("<IDS|MSG>");
        socket.sendMore(signer.calculateSignature(parts));
        for (int i = 0; i < parts.length; i++) {
            if (i < parts.length - 1) {
                socket.sendMore(parts[i]);
            } else {
                socket.send(parts[i]);
            }
        }
    }
}
