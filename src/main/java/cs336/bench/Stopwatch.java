package cs336.bench;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.bytedeco.pytorch.cuda.CUDAEvent;

/**
 * Times code that runs on a device: w warm-up steps, which are not counted, then n timed ones.
 *
 * <p>Work for a CUDA card is queued, and the call that queued it returns at once. So the stopwatch waits for the card
 * before each start and before each stop; without the latter it shows how long the queueing took. {@link #synchronised
 * synchronised(false)} is there to show just this wrong number.
 *
 * <pre>{@code
 * Timing t = Stopwatch.on(device).warmup(5).steps(10).time("matmul", () -> a.matmul(b).close());
 * t.summary().median()   // ms
 * }</pre>
 */
public final class Stopwatch {
    private static final double NANOS_PER_MS = 1e6;

    private final Device device;
    private int warmup = 5;
    private int steps = 10;
    private boolean synchronised = true;

    private Stopwatch(Device device) {
        this.device = device;
    }

    /** A stopwatch of 5 + 10 steps on this device. */
    public static Stopwatch on(Device device) {
        return new Stopwatch(device);
    }

    /**
     * How many steps to run before timing begins.
     *
     * @throws IllegalArgumentException if below 0
     */
    public Stopwatch warmup(int w) {
        if (w < 0) throw new IllegalArgumentException("warmup must be at least 0, not " + w);
        warmup = w;
        return this;
    }

    /**
     * How many steps to time.
     *
     * @throws IllegalArgumentException if below 1
     */
    public Stopwatch steps(int n) {
        if (n < 1) throw new IllegalArgumentException("steps must be at least 1, not " + n);
        steps = n;
        return this;
    }

    /** Whether to wait for the device before a stop; true unless the point is to see what happens otherwise. */
    public Stopwatch synchronised(boolean wait) {
        synchronised = wait;
        return this;
    }

    /** Ends the phase of a step that began with the step or with the end of the phase before. */
    @FunctionalInterface
    public interface Laps {
        /** Stops the time of this phase and starts that of the next. */
        void end(String phase);
    }

    /** Times each run of a step as a whole. The step frees what it makes. */
    public Timing time(String name, Runnable step) {
        return laps(lap -> {
                    step.run();
                    lap.end(name);
                })
                .get(name);
    }

    /**
     * Times the phases of each step by themselves. Waiting for the device between phases keeps host and card from
     * working ahead, so the phases add up to more than the step takes as a whole.
     *
     * @param step calls {@link Laps#end} after each of its phases
     * @return by phase, in the order of their first end
     */
    public Map<String, Timing> laps(Consumer<Laps> step) {
        device.makeCurrent();
        for (int i = 0; i < warmup; i++) {
            step.accept(phase -> await());
            await();
        }
        Map<String, List<Double>> wall = new LinkedHashMap<>();
        Map<String, List<Double>> events = new LinkedHashMap<>();
        try (Clock clock = device.isCuda() && synchronised ? new EventClock() : new Clock()) {
            for (int i = 0; i < steps; i++) {
                device.synchronize();
                clock.start();
                step.accept(phase -> {
                    clock.stop();
                    wall.computeIfAbsent(phase, p -> new ArrayList<>()).add(clock.wallMs());
                    if (clock.hasEvents()) {
                        events.computeIfAbsent(phase, p -> new ArrayList<>()).add(clock.eventMs());
                    }
                    clock.start();
                });
            }
        }
        device.synchronize(); // what was not waited for is not left to the next measurement
        Map<String, Timing> timings = new LinkedHashMap<>();
        wall.forEach((phase, ms) -> timings.put(
                phase,
                new Timing(
                        new Samples(Metric.ms(phase), ms),
                        events.containsKey(phase)
                                ? new Samples(Metric.ms(phase + "-events"), events.get(phase))
                                : null)));
        return timings;
    }

    private void await() {
        if (synchronised) device.synchronize();
    }

    /** The wall clock, stopped when the device is done. */
    private class Clock implements AutoCloseable {
        private long started;
        private long stopped;

        void start() {
            started = System.nanoTime();
        }

        void stop() {
            await();
            stopped = System.nanoTime();
        }

        double wallMs() {
            return (stopped - started) / NANOS_PER_MS;
        }

        boolean hasEvents() {
            return false;
        }

        double eventMs() {
            throw new IllegalStateException("this clock has no events");
        }

        @Override
        public void close() {}
    }

    /** The wall clock, and an event in the card's stream at start and stop. */
    private final class EventClock extends Clock {
        private static final int WITH_TIMES = 0; // cudaEventDefault; torch's own default switches times off

        // In no memory scope: a step's scope would free them.
        private final CUDAEvent begin = MemoryScope.keep(new CUDAEvent(WITH_TIMES));
        private final CUDAEvent end = MemoryScope.keep(new CUDAEvent(WITH_TIMES));

        EventClock() {
            // The card makes an event when it is recorded first, which takes time.
            begin.record();
            end.record();
        }

        @Override
        void start() {
            begin.record();
            super.start();
        }

        @Override
        void stop() {
            end.record();
            super.stop();
        }

        @Override
        boolean hasEvents() {
            return true;
        }

        @Override
        double eventMs() {
            return begin.elapsed_time(end);
        }

        @Override
        public void close() {
            begin.close();
            end.close();
        }
    }
}
