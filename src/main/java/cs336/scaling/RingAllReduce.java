package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.List;

/**
 * What an all-reduce costs when n ranks pass pieces around a ring.
 *
 * <p>The S bytes of each rank are cut into n pieces. In n − 1 steps every rank hands one piece to its neighbour, which
 * adds its own: then each piece is complete on one rank (reduce-scatter). In n − 1 more the complete pieces go around
 * (all-gather). Each of the 2(n − 1) steps takes a latency and the time of S / n bytes on one link, all links at once:
 *
 * <pre>t = 2(n − 1) (α + S / (n β))</pre>
 *
 * <p>Where ranks alone add, no algorithm sends fewer bytes from its busiest rank: 2(n − 1) / n · S (a switch that adds
 * needs S of each). That is why the <em>bus bandwidth</em>, these bytes by the time, can be held against a link's
 * bandwidth whatever n is (Patarasuk and Yuan, 2009; NVIDIA's nccl-tests, PERFORMANCE.md).
 *
 * @param alpha latency of a step
 * @param beta bandwidth of a link in one direction
 */
public record RingAllReduce(Seconds alpha, Bandwidth beta) {
    /**
     * A measured all-reduce.
     *
     * @param ranks that took part, at least 2
     * @param payload on each rank, above 0
     * @param time it took, above 0
     */
    public record MeasuredAllReduce(int ranks, Bytes payload, Seconds time) {
        /** @throws IllegalArgumentException if a number is out of range */
        public MeasuredAllReduce {
            ArgumentCheck.atLeast("ranks", 2, ranks);
            if (payload.count() == 0) throw new IllegalArgumentException("payload must be above 0 B");
            if (time.value() == 0) throw new IllegalArgumentException("time must be above 0 s");
        }
    }

    /** Steps of a ring: 2(n − 1). */
    public static int steps(int ranks) {
        return 2 * (ranks - 1);
    }

    /** Bytes that each rank sends, for each byte it holds: 2(n − 1) / n; 0 for one rank. */
    public static double sent(int ranks) {
        return steps(ranks) / (double) ranks;
    }

    /** How long it takes for so much on each rank; nothing for one rank. */
    public Seconds time(int ranks, Bytes payload) {
        return alpha.times(steps(ranks)).plus(payload.over(beta).times(sent(ranks)));
    }

    /**
     * Latency and bandwidth that fit measured times best, by least squares of the relative errors, so that small
     * messages count as much as large ones.
     *
     * @throws IllegalArgumentException where the times do not tell latency from bandwidth, or ask for a negative one
     */
    public static RingAllReduce fit(List<MeasuredAllReduce> measured) {
        // t ≈ a·α + b/β, each equation divided by t: Σ(aα/t + b/(βt) − 1)² is least where both derivatives are 0.
        double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
        for (MeasuredAllReduce m : measured) {
            double a = steps(m.ranks) / m.time.value();
            double b = sent(m.ranks) * m.payload.count() / m.time.value();
            aa += a * a;
            ab += a * b;
            bb += b * b;
            a1 += a;
            b1 += b;
        }
        double determinant = aa * bb - ab * ab;
        if (!(determinant > 1e-12 * aa * bb)) {
            throw new IllegalArgumentException(
                    measured.size() + " times do not tell latency from bandwidth: several sizes are needed");
        }
        double alpha = (a1 * bb - b1 * ab) / determinant;
        double perByte = (b1 * aa - a1 * ab) / determinant;
        if (alpha < 0 || perByte <= 0) {
            throw new IllegalArgumentException(
                    "times do not follow α + S/β: they ask for α = %.3g s, 1/β = %.3g s/B".formatted(alpha, perByte));
        }
        return new RingAllReduce(new Seconds(alpha), new Bandwidth(1 / perByte));
    }
}
