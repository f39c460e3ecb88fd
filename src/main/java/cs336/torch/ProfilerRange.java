package cs336.torch;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * A named range of a thread's execution, reported to all listeners: a profiler, a memory recording, Nsight Systems.
 * Ranges nest. Without a listener a range allocates nothing and costs 0.4 to 3 ns, depending on the JIT compiler.
 *
 * <pre>{@code
 * try (var range = ProfilerRange.of("attention.softmax")) {
 *     probabilities = torch.softmax(scores, -1);
 * }
 * }</pre>
 *
 * <p>A range must be opened and closed on one thread.
 */
public final class ProfilerRange implements AutoCloseable {
    private static final List<RangeListener> LISTENERS = new CopyOnWriteArrayList<>();
    private static final ProfilerRange NO_LISTENERS = new ProfilerRange("", new RangeListener[0]);
    private static volatile boolean hasListeners;

    private final String name;
    private final RangeListener[] listeners; // those that received its begin
    private boolean open;

    private ProfilerRange(String name, RangeListener[] listeners) {
        this.name = name;
        this.listeners = listeners;
        open = listeners.length > 0;
    }

    /** Begins a range, which {@link #close} ends. */
    public static ProfilerRange of(String name) {
        if (!hasListeners) {
            return NO_LISTENERS;
        }
        var range = new ProfilerRange(name, LISTENERS.toArray(new RangeListener[0]));
        for (RangeListener listener : range.listeners) {
            listener.entered(name);
        }
        return range;
    }

    /** Returns whether there are listeners. */
    public static boolean hasListeners() {
        return hasListeners;
    }

    /** Adds a listener for ranges that begin after this call. */
    public static synchronized void addListener(RangeListener listener) {
        LISTENERS.add(listener);
        hasListeners = true;
    }

    /** Removes a listener. It still receives the end of ranges that are open now. */
    public static synchronized void removeListener(RangeListener listener) {
        LISTENERS.remove(listener);
        hasListeners = !LISTENERS.isEmpty();
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
