package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

class SocketBytesTest {
    private static final int PAYLOAD = 2_000_000;

    /** The receiver's small buffer drops packets, which Linux sends again. */
    @Test
    @EnabledOnOs(OS.LINUX)
    void bytesThatAreSentAgainAreCountedOnce() throws Exception {
        try (var server = new ServerSocket()) {
            server.setReceiveBufferSize(4096);
            server.bind(null);
            try (var sender = new Socket(InetAddress.getLoopbackAddress(), server.getLocalPort());
                    var receiver = server.accept()) {
                long before = SocketBytes.sent();
                var received = CompletableFuture.supplyAsync(
                        () -> {
                            try {
                                return receiver.getInputStream().readNBytes(PAYLOAD).length;
                            } catch (IOException e) {
                                throw new UncheckedIOException(e);
                            }
                        },
                        task -> new Thread(task).start());
                sender.getOutputStream().write(new byte[PAYLOAD]);
                assertEquals(PAYLOAD, received.get());
                assertEquals(PAYLOAD, SocketBytes.sent() - before);
            }
        }
    }
}
