package cs336.distributed.bench;

import static cs336.units.UnitFactors.GB;
import static cs336.units.UnitFactors.SECONDS_PER_MS;

import cs336.bench.Metric;
import cs336.bench.Samples;
import cs336.bench.Summary;
import cs336.scaling.RingAllReduce;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/**
 * The measured times of all-reduces of one size.
 *
 * @param ranks number of ranks
 * @param bytes size of the tensor on each rank
 * @param time milliseconds of each all-reduce, synchronized after each call, on the slowest rank
 * @param queued milliseconds per all-reduce of groups that ran back to back, one value per group; empty if none did
 */
public record AllReduceTimes(int ranks, long bytes, List<Double> time, List<Double> queued) implements Serializable {
    /** Copies the lists. */
    public AllReduceTimes {
        time = List.copyOf(time);
        queued = List.copyOf(queued);
    }

    /** Returns the statistics of {@link #time()}, in milliseconds. */
    public Summary summary() {
        return new Samples(Metric.ms("time"), time).summary();
    }

    /** Returns the algorithm bandwidth: the tensor's size divided by the median time, in bytes per second. */
    public double algorithmBandwidth() {
        return bytes / (SECONDS_PER_MS * summary().median());
    }

    /**
     * Returns the bus bandwidth in bytes per second: the 2(n − 1)/n of the tensor that each rank sends in a ring
     * all-reduce, divided by the median time. It is comparable with a link's bandwidth for any number of ranks.
     */
    public double busBandwidth() {
        return RingAllReduce.sent(ranks) * algorithmBandwidth();
    }

    /** Returns the samples to store: {@code time}, {@code queued} if there are any, and both bandwidths in GB/s. */
    List<Samples> samples() {
        var samples = new ArrayList<Samples>();
        samples.add(new Samples(Metric.ms("time"), time));
        if (!queued.isEmpty()) {
            samples.add(new Samples(Metric.ms("queued"), queued));
        }
        samples.add(Samples.once(new Metric("algorithm-bandwidth", "GB/s"), algorithmBandwidth() / GB));
        samples.add(Samples.once(new Metric("bus-bandwidth", "GB/s"), busBandwidth() / GB));
        return samples;
    }
}
