package cs336.bench;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.torch.Device;
import cs336.units.HostLoad;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * A timer for code that runs on a device: it runs w untimed warm-up steps, then n timed steps.
 *
 * <p>A call that starts work on a GPU queues it and returns at once. The stopwatch therefore synchronizes with the
 * device before each start and each stop. Without the second synchronization it would measure the time in which the
 * host queues the work; {@link #synchronize synchronize(false)} demonstrates this error.
 *
 * <pre>{@code
 * Timing t = Stopwatch.on(device).warmup(5).steps(10).time("matmul", () -> a.matmul(b).close());
 * t.summary().median()   // ms
 * }</pre>
 */
public final class Stopwatch {
    private final Device device;
    private int warmup = 5;
    private int steps = 10;
    private boolean synchronizes = true;

    private Stopwatch(Device device) {
        this.device = device;
    }

    /** Returns a stopwatch for this device with 5 warm-up and 10 timed steps. */
    public static Stopwatch on(Device device) {
        return new Stopwatch(Objects.requireNonNull(device, "device must not be null"));
    }

    /**
     * Sets the number of warm-up steps.
     *
     * @throws IllegalArgumentException if below 0
     */
    public Stopwatch warmup(int w) {
        warmup = ArgumentCheck.atLeast("warmup", 0, w);
        return this;
    }

    /**
     * Sets the number of timed steps.
     *
     * @throws IllegalArgumentException if below 1
     */
    public Stopwatch steps(int n) {
        steps = ArgumentCheck.atLeast("steps", 1, n);
        return this;
    }

    /** Sets whether to synchronize with the device before each stop; true by default. */
    public Stopwatch synchronize(boolean wait) {
        synchronizes = wait;
        return this;
    }

    /** The interface through which a step reports the ends of its phases. */
    @FunctionalInterface
    public interface Laps {
        /** Ends the phase that began with the step or with the end of the previous phase. */
        void end(String phase);
    }

    /** Times each run of a step as a whole. The step must free the tensors that it creates. */
    public Timing time(String name, Runnable step) {
        return laps(lap -> {
                    step.run();
                    lap.end(name);
                })
                .get(name);
    }

    /**
     * Times the phases of each step separately. The synchronization between phases prevents the host from queueing work
     * ahead of the device, so the phases take longer in total than the whole step.
     *
     * @param step calls {@link Laps#end} after each of its phases
     * @return timings by phase, in the order in which the phases first ended
     */
    public Map<String, Timing> laps(Consumer<Laps> step) {
        HostLoad.check();
        device.makeCurrent();
        for (int i = 0; i < warmup; i++) {
            step.accept(phase -> await());
            await();
        }
        try (var times = new LapTimes()) {
            for (int i = 0; i < steps; i++) {
                device.synchronize();
                times.start();
                step.accept(times);
            }
            device.synchronize(); // unsynchronized work must not run into the next measurement
            return times.timings();
        }
    }

    private void await() {
        if (synchronizes) {
            device.synchronize();
        }
    }

    /** The times of all phases in all timed steps. */
    private final class LapTimes implements Laps, AutoCloseable {
        private final DeviceTimer timer = device.isCuda() && synchronizes ? DeviceTimer.on(device, 2) : null;
        private final Map<String, List<Double>> wall = new LinkedHashMap<>();
        private final Map<String, List<Double>> events = new LinkedHashMap<>();
        private long started;

        void start() {
            if (timer != null) {
                timer.mark(0);
            }
            started = System.nanoTime();
        }

        @Override
        public void end(String phase) {
            if (timer != null) {
                timer.mark(1);
            }
            await();
            add(wall, phase, (System.nanoTime() - started) / NANOS_PER_MS);
            if (timer != null) {
                add(events, phase, timer.ms(0, 1));
            }
            start();
        }

        private static void add(Map<String, List<Double>> times, String phase, double ms) {
            times.computeIfAbsent(phase, p -> new ArrayList<>()).add(ms);
        }

        Map<String, Timing> timings() {
            Map<String, Timing> timings = new LinkedHashMap<>();
            wall.forEach((phase, ms) -> timings.put(
                    phase,
                    new Timing(
                            new Samples(Metric.ms(phase), ms),
                            timer == null ? null : new Samples(Metric.ms(phase + "-events"), events.get(phase)))));
            return timings;
        }

        @Override
        public void close() {
            if (timer != null) {
                timer.close();
            }
        }
    }
}
