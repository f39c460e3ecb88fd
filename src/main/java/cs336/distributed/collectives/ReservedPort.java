package cs336.distributed.collectives;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;

/**
 * A free TCP port, reserved for a process that starts later. Linux assigns the port to no other process that asks for
 * any free port. The socket is bound but does not listen, so another socket may listen at the port if it sets
 * SO_REUSEADDR (socket(7)), as c10d's stores do.
 */
public final class ReservedPort implements AutoCloseable {
    private final Socket bound;

    private ReservedPort(Socket bound) {
        this.bound = bound;
    }

    /** Reserves any free port. */
    public static ReservedPort any() {
        var socket = new Socket();
        try {
            socket.setReuseAddress(true);
            socket.bind(new InetSocketAddress(0));
            return new ReservedPort(socket);
        } catch (IOException e) {
            throw new UncheckedIOException("no free TCP port on this machine", e);
        }
    }

    /** Returns the port number. */
    public int number() {
        return bound.getLocalPort();
    }

    @Override
    public void close() {
        try {
            bound.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
