package cs336.profile;

import cs336.bench.Stopwatch;
import cs336.bench.Summary;
import cs336.torch.Device;
import cs336.torch.ProfilerRange;
import cs336.torch.RangeListener;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * What the named ranges of a step cost while nobody listens. The step with and without them would differ by less than
 * it does from one time to the next, so the ranges are timed alone, in a loop.
 *
 * <pre>{@code
 * System.out.println(RangeCost.of(device, step::run));
 * }</pre>
 *
 * @param ranges how many a step opens
 * @param each nanoseconds to open and close one: the median of many batches
 * @param step nanoseconds of the step with its ranges: the median
 */
public record RangeCost(int ranges, double each, double step) {
    private static final int BATCHES = 50_000; // half of them are more than the compiler needs
    private static final int RANGES_OF_A_BATCH = 1000; // which take far longer than a look at the clock
    private static final double NANOS_PER_MS = 1e6;

    /**
     * Counts the ranges of a step, times the step, and times ranges of the same names with nothing in them.
     *
     * @throws IllegalStateException if somebody listens to ranges, such as a profiler
     */
    public static RangeCost of(Device device, Runnable step) {
        if (ProfilerRange.hasListeners())
            throw new IllegalStateException("somebody listens to ranges, such as a profiler");
        List<String> names = names(step);
        double milliseconds = Stopwatch.on(device).time("step", step).summary().median();
        return new RangeCost(names.size(), each(names), NANOS_PER_MS * milliseconds);
    }

    private static List<String> names(Runnable step) {
        var names = new CopyOnWriteArrayList<String>(); // a backward pass may have threads of its own
        RangeListener listener = new RangeListener() {
            @Override
            public void entered(String name) {
                names.add(name);
            }

            @Override
            public void left(String name) {}
        };
        ProfilerRange.addListener(listener);
        try {
            step.run();
        } finally {
            ProfilerRange.removeListener(listener);
        }
        return names;
    }

    private static double each(List<String> names) {
        if (names.isEmpty()) return 0;
        String[] all = names.toArray(new String[0]);
        int rounds = RANGES_OF_A_BATCH / all.length + 1;
        double[] nanoseconds = new double[BATCHES];
        for (int batch = 0; batch < BATCHES; batch++) {
            long start = System.nanoTime();
            for (int round = 0; round < rounds; round++) openAndClose(all);
            nanoseconds[batch] = (double) (System.nanoTime() - start) / rounds / all.length;
        }
        return Summary.of(nanoseconds).median();
    }

    private static void openAndClose(String[] names) {
        for (String name : names) {
            try (var range = ProfilerRange.of(name)) {
                // A range's cost does not depend on what happens in it.
            }
        }
    }

    /** The part of the step that its ranges take. */
    public double share() {
        return ranges * each / step;
    }

    /** As in {@code 31 ranges of 1.2 ns in a step of 4.1 ms: 0.0009 % of it}. */
    @Override
    public String toString() {
        return "%d ranges of %.1f ns in a step of %.1f ms: %.4f %% of it"
                .formatted(ranges, each, step / NANOS_PER_MS, 100 * share());
    }
}
