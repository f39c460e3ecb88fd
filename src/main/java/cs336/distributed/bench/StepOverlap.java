package cs336.distributed.bench;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.profile.Activity;
import cs336.profile.Breakdown;
import cs336.profile.Overlap;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.ToDoubleFunction;

/**
 * The overlap of communication and computation in one recorded step of one rank, in nanoseconds.
 *
 * @param communication time in which the rank communicated
 * @param overlapped time in which it communicated and computed
 * @param computation time in which it computed
 * @param span duration of the step
 */
record StepOverlap(long communication, long overlapped, long computation, long span) implements Serializable {
    private static final List<Metric> METRICS = List.of(
            Metric.ms("communication"),
            Metric.ms("overlapped"),
            new Metric("overlap-ratio", ""),
            new Metric("computation-share", "%"));
    private static final List<ToDoubleFunction<StepOverlap>> VALUES = List.of(
            step -> step.communication / NANOS_PER_MS,
            step -> step.overlapped / NANOS_PER_MS,
            step -> (double) step.overlapped / step.communication, // NaN with a single rank, which sends nothing
            step -> 100.0 * step.computation / step.span);

    /** Returns the metrics that {@link #samples} yields. */
    static List<Metric> metrics() {
        return METRICS;
    }

    /** Returns the overlap in a step's device activity. */
    static StepOverlap of(Activity activity) {
        Overlap overlap = Overlap.of(activity);
        Breakdown breakdown = Breakdown.of(activity);
        return new StepOverlap(
                overlap.communication(), overlap.overlapped(), breakdown.computation(), breakdown.span());
    }

    /**
     * Returns one value per step and metric. It is that of the rank that communicated least in that step, because the
     * communication of the others includes waiting for this rank.
     *
     * @param ranks the steps of each rank
     */
    static List<Samples> samples(List<? extends List<StepOverlap>> ranks) {
        var slowest = new ArrayList<StepOverlap>();
        for (int i = 0; i < ranks.get(0).size(); i++) {
            int step = i;
            slowest.add(ranks.stream()
                    .map(rank -> rank.get(step))
                    .min(Comparator.comparingLong(StepOverlap::communication))
                    .orElseThrow());
        }
        var samples = new ArrayList<Samples>();
        for (int i = 0; i < METRICS.size(); i++) {
            samples.add(new Samples(
                    METRICS.get(i),
                    slowest.stream().mapToDouble(VALUES.get(i)).boxed().toList()));
        }
        return samples;
    }
}
