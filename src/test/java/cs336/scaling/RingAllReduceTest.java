package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.scaling.RingAllReduce.Measured;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class RingAllReduceTest {
    /** Passes pieces around a ring of arrays and counts what each rank sends. */
    private static long[] passAround(long[][] ranks) {
        int n = ranks.length;
        int piece = ranks[0].length / n;
        long[] sent = new long[n];
        for (int step = 0; step < 2 * (n - 1); step++) {
            long[][] before = Arrays.stream(ranks).map(long[]::clone).toArray(long[][]::new);
            for (int rank = 0; rank < n; rank++) {
                int to = (rank + 1) % n;
                int begin = Math.floorMod(rank - step + (step < n - 1 ? 0 : n), n) * piece;
                for (int i = begin; i < begin + piece; i++) {
                    ranks[to][i] = before[rank][i] + (step < n - 1 ? ranks[to][i] : 0);
                    sent[rank]++;
                }
            }
        }
        return sent;
    }

    @Test
    void aRingThatPassesPiecesSumsAndSendsAsMuchAsCounted() {
        var random = new Random(5);
        for (int n : new int[] {2, 3, 4, 6}) {
            long[][] ranks = new long[n][12 * n];
            for (long[] rank : ranks) Arrays.setAll(rank, i -> random.nextInt(1000));
            long[] sums = new long[12 * n];
            for (long[] rank : ranks) Arrays.setAll(sums, i -> sums[i] + rank[i]);

            for (long sent : passAround(ranks)) assertEquals(RingAllReduce.sent(n) * 12 * n, sent, 1e-9);
            for (long[] rank : ranks) assertEquals(Arrays.toString(sums), Arrays.toString(rank), n + " ranks");
        }
    }

    @Test
    void timeIsLatencyOfEachStepAndBytesThroughOneLink() {
        var ring = new RingAllReduce(2e-6, 100e9);
        assertEquals(2 * 2e-6 + 1e9 / 100e9, ring.seconds(2, 1e9), 1e-15, "two ranks send all bytes once each");
        assertEquals(6 * (2e-6 + 0.25e9 / 100e9), ring.seconds(4, 1e9), 1e-15);
        assertEquals(0, ring.seconds(1, 1e9), "one rank has nothing to say");
    }

    @Test
    void aFitFindsTheRingThatMadeTheTimes() {
        var ring = new RingAllReduce(7e-6, 330e9);
        var random = new Random(3);
        List<Measured> exact = new ArrayList<>(), noisy = new ArrayList<>();
        for (int n : new int[] {2, 4}) {
            for (double bytes : new double[] {512e3, 1e6, 10e6, 100e6, 1e9}) {
                double t = ring.seconds(n, bytes);
                exact.add(new Measured(n, bytes, t));
                noisy.add(new Measured(n, bytes, t * (1 + 0.02 * random.nextGaussian())));
            }
        }
        assertEquals(ring.alpha(), RingAllReduce.fit(exact).alpha(), 1e-12);
        assertEquals(ring.beta(), RingAllReduce.fit(exact).beta(), 1);
        assertEquals(ring.alpha(), RingAllReduce.fit(noisy).alpha(), 0.1 * ring.alpha());
        assertEquals(ring.beta(), RingAllReduce.fit(noisy).beta(), 0.05 * ring.beta());
    }

    @Test
    void whatCannotBeFittedIsSaid() {
        String message = assertThrows(
                        IllegalArgumentException.class,
                        () -> RingAllReduce.fit(List.of(new Measured(2, 1e6, 1e-3), new Measured(2, 1e6, 1.1e-3))))
                .getMessage();
        assertEquals("2 times do not tell latency from bandwidth: several sizes are needed", message);
        assertThrows(
                IllegalArgumentException.class,
                () -> RingAllReduce.fit(List.of(new Measured(2, 1e6, 1e-3), new Measured(2, 1e9, 1e-3))),
                "a time that does not grow has no bandwidth");
        assertThrows(IllegalArgumentException.class, () -> new Measured(1, 1e6, 1e-3));
        assertThrows(IllegalArgumentException.class, () -> new Measured(2, 1e6, 0));
        assertThrows(IllegalArgumentException.class, () -> new RingAllReduce(-1e-6, 1e9));
        assertThrows(IllegalArgumentException.class, () -> new RingAllReduce(0, 0));
    }
}
