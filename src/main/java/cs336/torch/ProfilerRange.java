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
    private static final List<RangeListener> LISTENERS = new CopyOnWriteArrayList<>();
    private static final ProfilerRange UNHEARD = new ProfilerRange("", new RangeListener[0]);
    private static volatile boolean heard;

    private final String name;
    private final RangeListener[] listeners; // those who heard it begin
    private boolean open;

    private ProfilerRange(String name, RangeListener[] listeners) {
        this.name = name;
        this.listeners = listeners;
        open = listeners.length > 0;
    }

    /** Opens a range; {@link #close} ends it. */
    public static ProfilerRange of(String name) {
        if (!heard) {
            return UNHEARD;
        }
        ProfilerRange range = new ProfilerRange(name, LISTENERS.toArray(new RangeListener[0]));
        for (RangeListener listener : range.listeners) {
            listener.entered(name);
        }
        return range;
    }

    /** Whether anybody listens. */
    public static boolean hasListeners() {
        return heard;
    }

    /** Adds a listener, which hears of ranges that begin from now on. */
    public static synchronized void addListener(RangeListener listener) {
        LISTENERS.add(listener);
        heard = true;
    }

    /** Removes a listener. It still hears the end of ranges whose beginning it heard. */
    public static synchronized void removeListener(RangeListener listener) {
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
