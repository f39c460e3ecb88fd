package cs336.bench;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.pytorch.cuda.CUDAEvent;

/**
 * A fixed number of time marks on a device, and the times between them. On CUDA a mark is an event in the current
 * stream: the GPU reaches it when all earlier work in this stream is done. On the CPU a mark is a value of
 * {@link System#nanoTime}.
 *
 * <pre>{@code
 * try (var timer = DeviceTimer.on(device, 2)) {
 *     timer.mark(0);
 *     a.matmul(b).close();
 *     timer.mark(1);
 *     timer.ms(0, 1);
 * }
 * }</pre>
 */
public final class DeviceTimer implements AutoCloseable {
    private static final int ENABLE_TIMING = 0; // cudaEventDefault; PyTorch's own default disables timing

    private final List<CUDAEvent> events; // empty on the CPU
    private final long[] nanos;
    private boolean closed;

    private DeviceTimer(Device device, int marks) {
        nanos = new long[ArgumentCheck.atLeast("marks", 2, marks)];
        device.makeCurrent();
        // The memory scope of a timed step must not free the events.
        events = Stream.generate(() -> MemoryScope.keep(new CUDAEvent(ENABLE_TIMING)))
                .limit(device.isCuda() ? marks : 0)
                .toList();
        // PyTorch creates an event when it is first recorded, which takes time.
        events.forEach(CUDAEvent::record);
    }

    /**
     * Returns a timer for the device's current stream.
     *
     * @param marks number of marks, at least 2
     */
    public static DeviceTimer on(Device device, int marks) {
        return new DeviceTimer(device, marks);
    }

    /**
     * Sets a mark; a mark that was set before is overwritten.
     *
     * @param index the index of the mark, from 0 to the number of marks − 1
     * @throws IllegalArgumentException if there is no such mark
     * @throws IllegalStateException if the timer is closed
     */
    public void mark(int index) {
        requireMark("index", index);
        if (events.isEmpty()) {
            nanos[index] = System.nanoTime();
        } else {
            events.get(index).record();
        }
    }

    /**
     * Waits until the device has reached mark {@code to}, and returns the time in ms since mark {@code from}.
     *
     * @throws IllegalArgumentException if there is no such mark
     * @throws IllegalStateException if the timer is closed
     */
    public double ms(int from, int to) {
        requireMark("from", from);
        requireMark("to", to);
        if (events.isEmpty()) {
            return (nanos[to] - nanos[from]) / NANOS_PER_MS;
        }
        CUDAEvent end = events.get(to);
        end.synchronize();
        return events.get(from).elapsed_time(end);
    }

    private void requireMark(String name, int index) {
        if (closed) {
            throw new IllegalStateException("this timer is closed");
        }
        if (index < 0 || index >= nanos.length) {
            throw new IllegalArgumentException(name + " must be from 0 to " + (nanos.length - 1) + ", not " + index);
        }
    }

    @Override
    public void close() {
        closed = true;
        events.forEach(CUDAEvent::close);
    }
}
