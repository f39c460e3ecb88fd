package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import org.junit.jupiter.api.Test;

class ReservedPortTest {
    @Test
    void onlySocketsThatShareTheAddressCanListen() throws Exception {
        try (var port = ReservedPort.any();
                var other = new ServerSocket();
                var sharing = new ServerSocket()) {
            var address = new InetSocketAddress(port.number());
            other.setReuseAddress(false);
            assertThrows(BindException.class, () -> other.bind(address));
            sharing.setReuseAddress(true);
            sharing.bind(address);
            try (var client = new Socket(InetAddress.getLoopbackAddress(), port.number())) {
                assertEquals(port.number(), client.getPort());
            }
        }
    }

    @Test
    void portsAreDistinctAndFreeAfterClosing() throws Exception {
        int number;
        try (var port = ReservedPort.any();
                var another = ReservedPort.any()) {
            number = port.number();
            assertEquals(false, number == another.number());
        }
        try (var socket = new ServerSocket()) {
            socket.setReuseAddress(false);
            socket.bind(new InetSocketAddress(number));
        }
    }
}
