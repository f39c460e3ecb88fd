package cs336.profile;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.bench.Stopwatch;
import cs336.bench.Summary;
import cs336.torch.Device;
import cs336.torch.ProfilerRange;
import cs336.torch.RangeListener;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * The overhead of the named ranges of a step without a profiler. The difference between a step with and without ranges
 * would be smaller than the variation between steps, so the ranges are timed separately, in a loop.
 *
 * <pre>{@code
 * System.out.println(RangeCost.of(device, step::run));
 * }</pre>
 *
 * @param ranges number of ranges that a step opens
 * @param each time to open and close one range in nanoseconds: the median of many batches
 * @param step time of the step, including its ranges, in nanoseconds: the median
 */
public record RangeCost(int ranges, double each, double step) {
    private static final int BATCHES = 50_000; // the JIT compiler needs fewer than half of them
    private static final int RANGES_PER_BATCH = 1000; // so that a batch takes far longer than reading the clock

    /**
     * Counts the ranges of a step, times the step, and times empty ranges of the same names. Runs the step 16 times.
     *
     * @throws IllegalStateException if ranges have a listener, such as a profiler
     */
    public static RangeCost of(Device device, Runnable step) {
        if (ProfilerRange.hasListeners()) {
            throw new IllegalStateException("ranges have a listener, such as a profiler; stop it first");
        }
        List<String> names = names(step);
        double milliseconds = Stopwatch.on(device).time("step", step).summary().median();
        return new RangeCost(names.size(), each(names), NANOS_PER_MS * milliseconds);
    }

    private static List<String> names(Runnable step) {
        var names = new CopyOnWriteArrayList<String>(); // a backward pass may run on other threads
        var listener = new RangeListener() {
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
        if (names.isEmpty()) {
            return 0;
        }
        String[] all = names.toArray(new String[0]);
        int rounds = RANGES_PER_BATCH / all.length + 1;
        double[] nanoseconds = new double[BATCHES];
        for (int batch = 0; batch < BATCHES; batch++) {
            long start = System.nanoTime();
            for (int round = 0; round < rounds; round++) {
                openAndClose(all);
            }
            nanoseconds[batch] = (double) (System.nanoTime() - start) / rounds / all.length;
        }
        return Summary.of(nanoseconds).median();
    }

    private static void openAndClose(String[] names) {
        for (String name : names) {
            try (var range = ProfilerRange.of(name)) {
                // Empty: the cost of a range does not depend on its contents.
            }
        }
    }

    /** Returns the fraction of the step that its ranges take. */
    public double fraction() {
        return ranges * each / step;
    }

    /** Returns a summary, as in {@code 31 ranges of 1.2 ns in a step of 4.1 ms: 0.0009 % of it}. */
    @Override
    public String toString() {
        return "%,d ranges of %,.1f ns in a step of %,.1f ms: %.4f %% of it"
                .formatted(ranges, each, step / NANOS_PER_MS, 100 * fraction());
    }
}
