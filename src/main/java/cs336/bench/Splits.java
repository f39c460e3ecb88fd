package cs336.bench;

import cs336.torch.Device;
import java.util.stream.IntStream;

/**
 * Split times of a step without synchronization between its phases. The phases are separated by marks of a
 * {@link DeviceTimer}, so work in other streams may overlap with them. {@link Stopwatch} waits for the whole device
 * after each phase instead.
 */
public final class Splits implements AutoCloseable {
    private final Device device;
    private final DeviceTimer timer;
    private final int most;
    private int marks;

    /** @param most largest number of marks in a step, at least 2; {@link #start} sets the first one */
    public Splits(Device device, int most) {
        this.device = device;
        this.most = most;
        timer = DeviceTimer.on(device, most);
    }

    /** Waits for the device and sets the first mark of a step. */
    public void start() {
        device.synchronize();
        marks = 0;
        mark();
    }

    /**
     * Sets the next mark.
     *
     * @throws IllegalStateException if the step has more marks than the constructor allows
     */
    public void mark() {
        if (marks == most) {
            throw new IllegalStateException("a step may have at most " + most + " marks");
        }
        timer.mark(marks++);
    }

    /** Waits for the device, all streams included, and returns the times between neighbouring marks in ms. */
    public double[] ms() {
        device.synchronize();
        return IntStream.range(1, marks).mapToDouble(i -> timer.ms(i - 1, i)).toArray();
    }

    @Override
    public void close() {
        timer.close();
    }
}
