package cs336.distributed.bench;

import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.bench.Summary;
import cs336.scaling.RingAllReduce;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/**
 * How long all-reduces of one size took.
 *
 * @param ranks that took part
 * @param bytes on each of them
 * @param time milliseconds of each all-reduce by itself, on the rank where it took longest
 * @param queued milliseconds of one of several that were queued one after the other, one value a group; empty where
 *     none were
 */
public record AllReduceTimes(int ranks, long bytes, List<Double> time, List<Double> queued) implements Serializable {
    private static final double MS = 1e-3;
    private static final double GB = 1e9;

    /** Keeps copies of the lists. */
    public AllReduceTimes {
        time = List.copyOf(time);
        queued = List.copyOf(queued);
    }

    /** Number, mean, spread and extremes of {@link #time()}, in milliseconds. */
    public Summary summary() {
        return new Samples(Metric.ms("time"), time).summary();
    }

    /** Bytes of the message by the median time, in bytes a second: what a program sees. */
    public double algorithmBandwidth() {
        return bytes / (MS * summary().median());
    }

    /**
     * Bytes that the busiest rank has to send at least, 2(n − 1) / n of the message, by the median time, in bytes a
     * second: to be held against the bandwidth of a link, whatever the number of ranks.
     */
    public double busBandwidth() {
        return RingAllReduce.sent(ranks) * algorithmBandwidth();
    }

    /** What is stored: {@code time}, {@code queued} where there is some, and both bandwidths in GB/s. */
    List<Samples> samples() {
        var samples = new ArrayList<Samples>();
        samples.add(new Samples(Metric.ms("time"), time));
        if (!queued.isEmpty()) samples.add(new Samples(Metric.ms("queued"), queued));
        samples.add(Samples.once(new Metric("algorithm-bandwidth", "GB/s"), algorithmBandwidth() / GB));
        samples.add(Samples.once(new Metric("bus-bandwidth", "GB/s"), busBandwidth() / GB));
        return samples;
    }
}
