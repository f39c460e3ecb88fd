package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.scaling.RingAllReduce.MeasuredAllReduce;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class RingAllReduceTest {
    /** Passes chunks around a ring of arrays and returns the number of elements that each rank sends. */
    private static long[] allReduce(long[][] ranks) {
        int n = ranks.length;
        int chunk = ranks[0].length / n;
        long[] sent = new long[n];
        for (int step = 0; step < 2 * (n - 1); step++) {
            long[][] before = Arrays.stream(ranks).map(long[]::clone).toArray(long[][]::new);
            for (int rank = 0; rank < n; rank++) {
                int to = (rank + 1) % n;
                int begin = Math.floorMod(rank - step + (step < n - 1 ? 0 : n), n) * chunk;
                for (int i = begin; i < begin + chunk; i++) {
                    ranks[to][i] = before[rank][i] + (step < n - 1 ? ranks[to][i] : 0);
                    sent[rank]++;
                }
            }
        }
        return sent;
    }

    @Test
    void aRingOfArraysReducesAndSendsTheCountedElements() {
        var random = new Random(5);
        for (int n : new int[] {2, 3, 4, 6}) {
            long[][] ranks = new long[n][12 * n];
            for (long[] rank : ranks) {
                Arrays.setAll(rank, i -> random.nextInt(1000));
            }
            long[] sums = new long[12 * n];
            for (long[] rank : ranks) {
                Arrays.setAll(sums, i -> sums[i] + rank[i]);
            }

            for (long sent : allReduce(ranks)) {
                assertEquals(RingAllReduce.sent(n) * 12 * n, sent, 1e-9);
            }
            for (long[] rank : ranks) {
                assertEquals(Arrays.toString(sums), Arrays.toString(rank), n + " ranks");
            }
        }
    }

    @Test
    void timeIsLatencyPerStepPlusBytesOverOneLink() {
        var ring = new RingAllReduce(Seconds.us(2), Bandwidth.gb(100));
        var gigabyte = new Bytes(1_000_000_000);
        assertEquals(
                2 * 2e-6 + 1e9 / 100e9, ring.time(2, gigabyte).value(), 1e-15, "two ranks send all bytes once each");
        assertEquals(6 * (2e-6 + 0.25e9 / 100e9), ring.time(4, gigabyte).value(), 1e-15);
        assertEquals(Seconds.ZERO, ring.time(1, gigabyte), "one rank sends nothing");
    }

    @Test
    void aFitRecoversTheRingThatGeneratedTheTimes() {
        var ring = new RingAllReduce(Seconds.us(7), Bandwidth.gb(330));
        var random = new Random(3);
        List<MeasuredAllReduce> exact = new ArrayList<>(), noisy = new ArrayList<>();
        for (int n : new int[] {2, 4}) {
            for (long bytes : new long[] {512_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000}) {
                var payload = new Bytes(bytes);
                Seconds time = ring.time(n, payload);
                exact.add(new MeasuredAllReduce(n, payload, time));
                noisy.add(new MeasuredAllReduce(n, payload, time.times(1 + 0.02 * random.nextGaussian())));
            }
        }
        assertEquals(7, RingAllReduce.fit(exact).alpha().us(), 1e-6);
        assertEquals(330, RingAllReduce.fit(exact).beta().gb(), 1e-9);
        assertEquals(7, RingAllReduce.fit(noisy).alpha().us(), 0.1 * 7);
        assertEquals(330, RingAllReduce.fit(noisy).beta().gb(), 0.05 * 330);
    }

    @Test
    void timesThatCannotBeFittedAreRejected() {
        var small = new Bytes(1_000_000);
        var large = new Bytes(1_000_000_000);
        Seconds ms = Seconds.ms(1);
        String message = assertThrows(
                        IllegalArgumentException.class,
                        () -> RingAllReduce.fit(List.of(
                                new MeasuredAllReduce(2, small, ms), new MeasuredAllReduce(2, small, Seconds.ms(1.1)))))
                .getMessage();
        assertEquals("2 times do not determine both latency and bandwidth: measure several payloads", message);
        assertThrows(
                IllegalArgumentException.class,
                () -> RingAllReduce.fit(
                        List.of(new MeasuredAllReduce(2, small, ms), new MeasuredAllReduce(2, large, ms))),
                "a time that does not grow has no bandwidth");
        assertThrows(IllegalArgumentException.class, () -> new MeasuredAllReduce(1, small, ms));
        assertThrows(IllegalArgumentException.class, () -> new MeasuredAllReduce(2, Bytes.NONE, ms));
        assertThrows(IllegalArgumentException.class, () -> new MeasuredAllReduce(2, small, Seconds.ZERO));
    }
}
