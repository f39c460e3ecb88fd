package cs336.distributed.collectives;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A TCP socket that listens at one address of this machine, as a file descriptor for native code. c10d's own sockets
 * listen on all network interfaces.
 */
final class ListeningSocket {
    private static final int AF_INET = 2;
    private static final int AF_INET6 = 10;
    private static final int SOCK_STREAM_CLOSED_ON_EXEC = 1 | 0x80000;
    private static final int SOL_SOCKET = 1;
    private static final int SO_REUSEADDR = 2;
    private static final int BACKLOG = 2048;
    private static final int EADDRINUSE = 98;
    private static final int IPV4_BYTES = 4;
    private static final int SOCKADDR_IN6_BYTES = 28; // see ipv6(7); a sockaddr_in is shorter

    private ListeningSocket() {}

    /**
     * Returns the file descriptor of a new socket, which the caller owns.
     *
     * @throws IOException if the address is not one of this machine, or the port is in use; then the message contains
     *     EADDRINUSE
     */
    static int open(InetAddress address, int port) throws IOException {
        byte[] ip = address.getAddress();
        boolean isIpv4 = ip.length == IPV4_BYTES;
        byte[] name = sockaddr(ip, isIpv4, port);
        int fd = call("socket", isIpv4 ? AF_INET : AF_INET6, SOCK_STREAM_CLOSED_ON_EXEC, 0);
        try {
            call("setsockopt", fd, SOL_SOCKET, SO_REUSEADDR, new int[] {1}, Integer.BYTES);
            call("bind", fd, name, name.length);
            call("listen", fd, BACKLOG);
            return fd;
        } catch (IOException e) {
            call("close", fd);
            throw e;
        }
    }

    private static byte[] sockaddr(byte[] ip, boolean isIpv4, int port) {
        var name = ByteBuffer.allocate(isIpv4 ? 2 * Long.BYTES : SOCKADDR_IN6_BYTES);
        name.order(ByteOrder.nativeOrder()).putShort((short) (isIpv4 ? AF_INET : AF_INET6));
        name.order(ByteOrder.BIG_ENDIAN).putShort((short) port);
        if (!isIpv4) {
            name.putInt(0); // flow information
        }
        return name.put(ip).array();
    }

    private static int call(String function, Object... arguments) throws IOException {
        int result = NativeLibrary.getProcess().getFunction(function).invokeInt(arguments);
        if (result < 0) {
            int error = Native.getLastError();
            String reason =
                    NativeLibrary.getProcess().getFunction("strerror").invokeString(new Object[] {error}, false);
            throw new IOException(function + ": " + (error == EADDRINUSE ? "EADDRINUSE, " : "") + reason);
        }
        return result;
    }
}
