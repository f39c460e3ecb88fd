package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.List;

/**
 * The cost of an all-reduce in which n ranks pass chunks around a ring.
 *
 * <p>The S bytes of each rank are cut into n chunks. In n − 1 steps every rank sends one chunk to its neighbour, which
 * adds its own: then each chunk is complete on one rank (reduce-scatter). In n − 1 more steps the complete chunks are
 * passed around the ring (all-gather). All links work at the same time, so each of the 2(n − 1) steps takes one latency
 * and the time of S / n bytes on one link:
 *
 * <pre>t = 2(n − 1) (α + S / (n β))</pre>
 *
 * <p>If the ranks do the additions, the busiest rank of any algorithm sends at least 2(n − 1) / n · S bytes (with
 * in-network reduction, S bytes). These bytes over the time are the <em>bus bandwidth</em>, which can be compared with
 * a link's bandwidth for any n (Patarasuk and Yuan, 2009; NVIDIA's nccl-tests, PERFORMANCE.md).
 *
 * @param alpha latency of a step
 * @param beta bandwidth of a link in one direction
 */
public record RingAllReduce(Seconds alpha, Bandwidth beta) {
    /**
     * A measured all-reduce.
     *
     * @param ranks number of ranks, at least 2
     * @param payload bytes on each rank, above 0
     * @param time time of the all-reduce, above 0
     */
    public record MeasuredAllReduce(int ranks, Bytes payload, Seconds time) {
        /** @throws IllegalArgumentException if a number is out of range */
        public MeasuredAllReduce {
            ArgumentCheck.atLeast("ranks", 2, ranks);
            if (payload.count() == 0) {
                throw new IllegalArgumentException("payload must be above 0 B, not 0 B");
            }
            if (time.value() == 0) {
                throw new IllegalArgumentException("time must be above 0 s, not 0 s");
            }
        }
    }

    /** Returns the number of steps of a ring: 2(n − 1). */
    public static long steps(int ranks) {
        return 2L * (ranks - 1);
    }

    /** Returns the bytes that each rank sends per byte of its payload: 2(n − 1) / n; 0 for one rank. */
    public static double sent(int ranks) {
        return steps(ranks) / (double) ranks;
    }

    /** Returns the time of an all-reduce of a payload on each rank; 0 for one rank. */
    public Seconds time(int ranks, Bytes payload) {
        return alpha.times(steps(ranks)).plus(payload.over(beta).times(sent(ranks)));
    }

    /**
     * Fits latency and bandwidth to measured times by least squares of relative errors, so that small messages have the
     * same weight as large ones.
     *
     * @throws IllegalArgumentException if the times do not determine both, or if one of them would be negative
     */
    public static RingAllReduce fit(List<MeasuredAllReduce> measured) {
        // t ≈ a·α + b/β, each equation divided by t.
        var fit = new TwoParameterFit();
        for (MeasuredAllReduce m : measured) {
            double t = m.time.value();
            fit.add(steps(m.ranks) / t, sent(m.ranks) * m.payload.count() / t, 1);
        }
        if (!fit.isDetermined()) {
            throw new IllegalArgumentException(
                    measured.size() + " times do not determine both latency and bandwidth: measure several payloads");
        }
        double alpha = fit.first();
        double perByte = fit.second();
        if (alpha < 0 || perByte <= 0) {
            throw new IllegalArgumentException(
                    "times must follow α + S/β with α ≥ 0 and β > 0, not α = %.3g s, 1/β = %.3g s/B"
                            .formatted(alpha, perByte));
        }
        return new RingAllReduce(new Seconds(alpha), new Bandwidth(1 / perByte));
    }
}
