package cs336.torch;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * A stretch of a program under a name, for whoever listens: a profiler, a memory record, Nsight Systems. Ranges nest.
 * While nobody listens, one allocates nothing and costs 0.4 to 3 ns, by how thoroughly the JVM has compiled it.
 *
 * <pre>{@code
 * try (var range = ProfilerRange.of("attention.softmax")) {
 *     probabilities = torch.softmax(scores, -1);
 * }
 * }</pre>
 *
 * Open and close it on one thread, as the statement above does.
 */
public final class ProfilerRange implements AutoCloseable {
    private static final List<Listener> LISTENERS = new CopyOnWriteArrayList<>();
    private static final ProfilerRange UNHEARD = new ProfilerRange("", new Listener[0]);
    private static volatile boolean heard;

    /** Is told of ranges, on the thread that opens and closes them. */
    public interface Listener {
        /** A range begins. */
        void entered(String name);

        /** The range that was entered last on this thread, and has not been left yet, ends. */
        void left(String name);
    }

    private final String name;
    private final Listener[] listeners; // those who heard it begin
    private boolean open;

    private ProfilerRange(String name, Listener[] listeners) {
        this.name = name;
        this.listeners = listeners;
        open = listeners.length > 0;
    }

    /** Opens a range; {@link #close} ends it. */
    public static ProfilerRange of(String name) {
        if (!heard) {
            return UNHEARD;
        }
        ProfilerRange range = new ProfilerRange(name, LISTENERS.toArray(new Listener[0]));
        for (Listener listener : range.listeners) {
            listener.entered(name);
        }
        return range;
    }

    /** Whether anybody listens. */
    public static boolean isHeard() {
        return heard;
    }

    /** Adds a listener, which hears of ranges that begin from now on. */
    public static synchronized void listen(Listener listener) {
        LISTENERS.add(listener);
        heard = true;
    }

    /** Removes a listener. It still hears the end of ranges whose beginning it heard. */
    public static synchronized void unlisten(Listener listener) {
        LISTENERS.remove(listener);
        heard = !LISTENERS.isEmpty();
    }

    @Override
    public void close() {
        if (!open) {
            return;
        }
        open = false;
        for (int i = listeners.length - 1; i >= 0; i--) {
            listeners[i].left(name);
        }
    }
}
