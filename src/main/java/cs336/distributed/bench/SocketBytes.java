package cs336.distributed.bench;

import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.ptr.IntByReference;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** What Linux has counted at the TCP sockets of this process: all that Gloo sends, and the little that a store does. */
final class SocketBytes {
    private static final int IPPROTO_TCP = 6;
    private static final int TCP_INFO = 11;
    private static final int SIZE_OF_INFO = 256;
    private static final int BYTES_SENT = 200; // tcpi_bytes_sent in linux/tcp.h, since Linux 4.19
    private static final Function GETSOCKOPT = NativeLibrary.getProcess().getFunction("getsockopt");

    private SocketBytes() {}

    /** Bytes that the sockets which are open now have sent. */
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

    /** 0 for what is no TCP socket. */
    private static long sent(int descriptor, Memory info) {
        var length = new IntByReference(SIZE_OF_INFO);
        Object[] arguments = {descriptor, IPPROTO_TCP, TCP_INFO, info, length};
        boolean found = GETSOCKOPT.invokeInt(arguments) == 0 && length.getValue() >= BYTES_SENT + Long.BYTES;
        return found ? info.getLong(BYTES_SENT) : 0;
    }
}
