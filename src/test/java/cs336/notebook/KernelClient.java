package cs336.notebook;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.github.spencerpark.jupyter.kernel.KernelConnectionProperties;
import io.github.spencerpark.jupyter.messages.HMACGenerator;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;

/** A Jupyter client of a kernel on free ports of this machine. */
final class KernelClient implements AutoCloseable {
    static final String DELIMITER = "<IDS|MSG>";

    /** Time to wait for a reply. */
    static final int REPLY_MS = 120_000;

    private static final String KEY = "secret";

    private final ZMQ.Context context = ZMQ.context(1);
    private final int[] ports;
    private final KernelConnectionProperties properties;
    private final HMACGenerator signer;

    enum Port {
        CONTROL,
        SHELL,
        STDIN,
        HEARTBEAT,
        IOPUB
    }

    KernelClient() throws IOException, GeneralSecurityException {
        ports = KernelTrialRun.freePorts();
        properties = new KernelConnectionProperties(
                "127.0.0.1", ports[0], ports[1], ports[2], ports[3], ports[4], "tcp", "hmac-sha256", KEY);
        signer = properties.createHMACGenerator();
    }

    KernelConnectionProperties properties() {
        return properties;
    }

    int number(Port port) {
        return ports[port.ordinal()];
    }

    /** Returns a socket that is connected to a port. */
    ZMQ.Socket socket(SocketType type, Port port) {
        return socket(type, port, UUID.randomUUID().toString());
    }

    ZMQ.Socket socket(SocketType type, Port port, String identity) {
        ZMQ.Socket socket = context.socket(type);
        socket.setIdentity(bytes(identity));
        socket.setLinger(0);
        socket.setReceiveTimeOut(REPLY_MS);
        socket.connect("tcp://127.0.0.1:" + number(port));
        return socket;
    }

    static void send(ZMQ.Socket socket, List<byte[]> frames) {
        for (int i = 0; i < frames.size() - 1; i++) {
            socket.sendMore(frames.get(i));
        }
        socket.send(frames.get(frames.size() - 1));
    }

    /** Returns the parts of the next message after the delimiter; null if none arrives in time. */
    static List<String> receive(ZMQ.Socket socket) {
        List<String> frames = new ArrayList<>();
        byte[] frame = socket.recv();
        while (frame != null) {
            frames.add(new String(frame, StandardCharsets.UTF_8));
            frame = socket.hasReceiveMore() ? socket.recv() : null;
        }
        return frames.isEmpty() ? null : frames.subList(frames.indexOf(DELIMITER) + 1, frames.size());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static JsonObject json(String text) {
        return JsonParser.parseString(text).getAsJsonObject();
    }

    static String header(String id, String type) {
        return "{\"msg_id\": \"" + id + "\", \"username\": \"u\", \"session\": \"s\", \"version\": \"5.3\", "
                + "\"date\": \"2026-01-01T00:00:00Z\", \"msg_type\": \"" + type + "\"}";
    }

    String signature(byte[]... parts) {
        return signer.calculateSignature(parts);
    }

    /** Returns a message of these parts. */
    List<byte[]> signed(String... parts) {
        var signedParts = Stream.of(parts).map(KernelClient::bytes).toArray(byte[][]::new);
        List<byte[]> frames = new ArrayList<>();
        frames.add(bytes(DELIMITER));
        frames.add(bytes(signature(signedParts)));
        frames.addAll(List.of(signedParts));
        return frames;
    }

    List<byte[]> request(String type, String content) {
        return signed(header(UUID.randomUUID().toString(), type), "{}", "{}", content);
    }

    @Override
    public void close() {
        context.close();
    }
}
