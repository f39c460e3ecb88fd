package cs336.bench;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.cuda.CUDAEvent;

/**
 * Split times of a step that is not held up: on CUDA, marks are events in the current stream, which the card reaches
 * when all that was queued there before is done. What runs beside it in other streams is not waited for. On the CPU,
 * marks are the host's clock.
 *
 * <p>{@link Stopwatch} waits for the device after each phase instead, and so for everything that runs there.
 */
public final class Splits implements AutoCloseable {
    private static final double NANOS_PER_MS = 1e6;
    private static final int WITH_TIMES = 0; // cudaEventDefault; torch's own default switches times off

    private final Device device;
    private final List<CUDAEvent> events = new ArrayList<>();
    private final long[] nanos;
    private int marks;

    /**
     * Up to so many marks a step.
     *
     * @param most at least 2
     */
    public Splits(Device device, int most) {
        this.device = device;
        nanos = new long[ArgumentCheck.atLeast("most", 2, most)];
        if (device.isCuda()) {
            device.makeCurrent();
            for (int i = 0; i < most; i++) {
                // In no memory scope: a step's scope would free it.
                CUDAEvent event = MemoryScope.keep(new CUDAEvent(WITH_TIMES));
                event.record(); // the card makes an event when it is recorded first, which takes time
                events.add(event);
            }
        }
    }

    /** Waits for the device and makes the first mark of a step. */
    public void start() {
        device.synchronize();
        marks = 0;
        mark();
    }

    /**
     * Makes the next mark.
     *
     * @throws IllegalStateException if there were as many as announced
     */
    public void mark() {
        if (marks == nanos.length) throw new IllegalStateException("there are marks for " + nanos.length + " only");
        if (device.isCuda()) events.get(marks).record();
        nanos[marks++] = System.nanoTime();
    }

    /** Waits for the device; the times between neighbouring marks, in ms. */
    public double[] ms() {
        device.synchronize();
        double[] times = new double[marks - 1];
        for (int i = 0; i < times.length; i++) {
            times[i] = device.isCuda()
                    ? events.get(i).elapsed_time(events.get(i + 1))
                    : (nanos[i + 1] - nanos[i]) / NANOS_PER_MS;
        }
        return times;
    }

    @Override
    public void close() {
        events.forEach(CUDAEvent::close);
        events.clear();
    }
}
