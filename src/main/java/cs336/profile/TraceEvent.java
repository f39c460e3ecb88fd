package cs336.profile;

/**
 * A named event of a {@link Trace} with a start and a duration, on a CPU thread or a CUDA stream.
 *
 * <p>Times are in nanoseconds. Starts are relative to {@link Trace#baseTime}.
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
     * Returns the name, as in {@code aten::mm}, {@code attention.softmax}, {@code cudaLaunchKernel}, the C++ name of a
     * kernel, or {@code Memcpy HtoD (Pinned -> Device)}.
     */
    public String name() {
        return name;
    }

    /** Returns the start in nanoseconds. */
    public long start() {
        return start;
    }

    /** Returns the duration in nanoseconds. */
    public long duration() {
        return duration;
    }

    /** Returns the end in nanoseconds: start + duration. */
    public long end() {
        return start + duration;
    }
}
