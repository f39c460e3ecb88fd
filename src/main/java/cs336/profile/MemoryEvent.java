package cs336.profile;

/**
 * An allocation or a release, as PyTorch's allocators report them to the profiler.
 *
 * @param thread who asked
 * @param time nanoseconds after the trace's {@link Trace#baseTime}
 * @param device -1 for the CPU, otherwise the number of the card
 * @param address of the block
 * @param bytes allocated, or, if negative, released
 * @param total in use on the device afterwards
 */
public record MemoryEvent(HostThread thread, long time, int device, long address, long bytes, long total) {
    public static final int CPU = -1;

    public boolean isOnGpu() {
        return device != CPU;
    }
}
