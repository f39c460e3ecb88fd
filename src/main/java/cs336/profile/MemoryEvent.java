package cs336.profile;

/**
 * An allocation or a release, as PyTorch's allocators report it to the profiler.
 *
 * @param thread thread that allocated or freed
 * @param time nanoseconds after {@link Trace#baseTime}
 * @param device index of the GPU, or {@link #CPU}
 * @param address address of the block
 * @param bytes bytes allocated; negative for bytes freed
 * @param total bytes in use on the device afterwards
 */
public record MemoryEvent(HostThread thread, long time, int device, long address, long bytes, long total) {
    /** The {@link #device} of CPU memory. */
    public static final int CPU = -1;

    /** Returns whether this is GPU memory. */
    public boolean isOnGpu() {
        return device != CPU;
    }
}
