package cs336.distributed.collectives;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;

/**
 * A port at which a process that is still to start can listen, and which Linux gives to no one who asks for any free
 * one until this is closed. It is bound, but nobody listens at it; then another socket may still do so that allows the
 * address to be shared, as those of c10d's stores do (SO_REUSEADDR in socket(7)).
 */
public final class ReservedPort implements AutoCloseable {
    private final Socket bound;

    private ReservedPort(Socket bound) {
        this.bound = bound;
    }

    /** A free one. */
    public static ReservedPort any() {
        var socket = new Socket();
        try {
            socket.setReuseAddress(true);
            socket.bind(new InetSocketAddress(0));
            return new ReservedPort(socket);
        } catch (IOException e) {
            throw new UncheckedIOException("this machine has no free port", e);
        }
    }

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
