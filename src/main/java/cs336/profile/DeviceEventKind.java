package cs336.profile;

/** The kinds of {@link DeviceEvent}. */
public enum DeviceEventKind {
    /** A kernel. */
    KERNEL,
    /** A memory copy by the GPU's copy engine or a copy kernel of the driver. */
    MEMCPY,
    /** A memory set. */
    MEMSET,
    /**
     * No work, but the interval from the first to the last kernel of a {@linkplain HostEventKind#RANGE range}, which
     * Kineto adds for trace viewers.
     */
    RANGE;

    boolean isWork() {
        return this != RANGE;
    }
}
