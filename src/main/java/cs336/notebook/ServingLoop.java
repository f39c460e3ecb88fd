package cs336.notebook;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;
import zmq.ZError;

/**
 * A thread that receives the messages of one socket and handles them one after the other.
 *
 * <p>A message that cannot be handled is logged, and the next one is received. If the thread ends for another reason
 * than {@link #finish}, it calls {@code onFailure}.
 */
final class ServingLoop extends Thread {
    private static final Logger LOGGER = Logger.getLogger(ServingLoop.class.getName());
    private static final int POLL_MS = 100;

    /** From this number on, only some refused messages are logged, so that they cannot fill the log. */
    private static final int MOST_LOGGED = 20;

    private final Source source;
    private final Consumer<List<byte[]>> handler;
    private final Runnable onFailure;
    private volatile boolean finished;
    private long refused;

    /** A source of messages. */
    @FunctionalInterface
    interface Source {
        /** Waits a short time for a message and returns its frames; null if there is none. */
        List<byte[]> receive();
    }

    ServingLoop(String name, Source source, Consumer<List<byte[]>> handler, Runnable onFailure) {
        super(name);
        this.source = source;
        this.handler = handler;
        this.onFailure = onFailure;
        setDaemon(true);
    }

    /** Returns the messages of a socket. Each is received whole, so that a short one does not consume the next. */
    static Source of(ZMQ.Socket socket) {
        socket.setReceiveTimeOut(POLL_MS);
        return () -> {
            byte[] first = socket.recv();
            return first == null ? null : withRest(socket, first);
        };
    }

    /** Returns a received frame and the rest of its message. */
    static List<byte[]> withRest(ZMQ.Socket socket, byte[] first) {
        List<byte[]> frames = new ArrayList<>(List.of(first));
        while (socket.hasReceiveMore()) {
            frames.add(socket.recv());
        }
        return frames;
    }

    @Override
    public void run() {
        try {
            while (!finished) {
                List<byte[]> frames = receive();
                if (frames != null) {
                    handle(frames);
                }
            }
        } catch (Throwable t) {
            LOGGER.log(Level.SEVERE, "the kernel ends, because the " + getName() + " channel failed", t);
        } finally {
            if (!finished) {
                onFailure.run();
            }
        }
    }

    private List<byte[]> receive() {
        Thread.interrupted(); // a cell may have left it set
        try {
            return source.receive();
        } catch (ZMQException e) {
            if (e.getErrorCode() == ZError.EINTR) {
                return null;
            }
            throw e;
        }
    }

    private void handle(List<byte[]> frames) {
        try {
            handler.accept(frames);
        } catch (Throwable t) {
            log(t.toString());
        }
    }

    /** Logs the reason for which a message was not handled. */
    void log(String reason) {
        refused++;
        if (refused <= MOST_LOGGED || Long.bitCount(refused) == 1) {
            LOGGER.warning("message " + refused + " on the " + getName() + " channel was not handled: " + reason);
        }
    }

    /** Makes the thread end after the message that it handles. */
    void finish() {
        finished = true;
    }
}
