package cs336.profile;

/**
 * A stretch of time with a name in a {@link Trace}, on a thread or on a card.
 *
 * <p>Times are nanoseconds. A start counts from the trace's {@link Trace#baseTime}.
 */
public abstract sealed class TraceEvent permits HostEvent, DeviceEvent {
    private final String name;
    private final long start;
    private final long duration;

    TraceEvent(String name, long start, long duration) {
        this.name = name;
        this.start = start;
        this.duration = duration;
    }

    /**
     * As in {@code aten::mm}, {@code attention.softmax}, {@code cudaLaunchKernel}; a kernel's is its C++ name, a copy's
     * as in {@code Memcpy HtoD (Pinned -> Device)}.
     */
    public String name() {
        return name;
    }

    /** When it began. */
    public long start() {
        return start;
    }

    /** How long it took. */
    public long duration() {
        return duration;
    }

    /** When it ended: start + duration. */
    public long end() {
        return start + duration;
    }
}
