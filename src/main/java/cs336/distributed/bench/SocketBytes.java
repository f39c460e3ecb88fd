package cs336.distributed.bench;

import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.ptr.IntByReference;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/**
 * Linux's byte counters of this process's TCP sockets, which carry all of Gloo's traffic and little else. Retransmitted
 * bytes are counted once, because their number depends on how late the receiver reads on a busy machine.
 */
final class SocketBytes {
    private static final int IPPROTO_TCP = 6;
    private static final int TCP_INFO = 11;
    private static final int SIZE_OF_INFO = 256;
    private static final int BYTES_SENT = 200; // tcpi_bytes_sent in linux/tcp.h, since Linux 4.19
    private static final int BYTES_SENT_AGAIN = BYTES_SENT + Long.BYTES; // tcpi_bytes_retrans, which the former include
    private static final Function GETSOCKOPT = NativeLibrary.getProcess().getFunction("getsockopt");

    private SocketBytes() {}

    /** Returns the bytes that the currently open sockets have sent. */
    static long sent() throws IOException {
        long sent = 0;
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"));
                var info = new Memory(SIZE_OF_INFO)) {
            for (Path file : files.toList()) {
                sent += sent(Integer.parseInt(file.getFileName().toString()), info);
            }
        }
        return sent;
    }

    /** Returns the bytes that a socket has sent; 0 if the file descriptor is not a TCP socket. */
    private static long sent(int descriptor, Memory info) {
        var length = new IntByReference(SIZE_OF_INFO);
        Object[] arguments = {descriptor, IPPROTO_TCP, TCP_INFO, info, length};
        boolean found = GETSOCKOPT.invokeInt(arguments) == 0 && length.getValue() >= BYTES_SENT_AGAIN + Long.BYTES;
        return found ? info.getLong(BYTES_SENT) - info.getLong(BYTES_SENT_AGAIN) : 0;
    }
}
