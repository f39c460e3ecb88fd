package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.units.Bytes;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.util.Random;
import org.junit.jupiter.api.Test;

class FeedForwardParallelismTest {
    private static final int D = 1600;
    private static final int F = 6400;

    private static FeedForwardParallelism on(int x, int y) {
        return new FeedForwardParallelism(D, F, Accelerator.H200, x, y);
    }

    /** Returns a cluster of H200s without latency, whose rings the simulator uses. */
    private static Cluster cluster() {
        var link = new Link("NVLink", Seconds.ZERO, Accelerator.H200.link());
        return new Cluster(64, link, link, Seconds.ZERO);
    }

    private static double simulated(Collective collective, Bytes payload, int ranks) {
        return cluster()
                .time(collective, payload, new Cluster.DeviceGroup(ranks, 64), Cluster.Algorithm.RING)
                .value();
    }

    @Test
    void timesAreThoseOfTheHandouts() {
        long seed = System.nanoTime();
        var random = new Random(seed);
        double peak = 989e12;
        double w = 450e9;
        for (int i = 0; i < 100; i++) {
            int n = 2 + random.nextInt(15);
            double b = 1000 + random.nextInt(100_000);
            Tokens batch = new Tokens((long) b);
            double df = (double) D * F;
            assertRelative(6 * b * df / n / peak, on(n, 1).forward(batch), seed);
            assertRelative(12 * b * df / n / peak, on(n, 1).backward(batch), seed);
            assertRelative(12 * df * (n - 1) / n / w, on(n, 1).dataParallelAllReduce(), seed);
            assertRelative(6 * df * (n - 1) / n / w, on(n, 1).fsdpForward(), seed);
            assertRelative(12 * df * (n - 1) / n / w, on(n, 1).fsdpBackward(), seed);
            assertRelative(4 * b * D * (n - 1) / n / w, on(1, n).tensorAllReduce(batch), seed);
        }
    }

    private static void assertRelative(double expected, Seconds actual, long seed) {
        assertEquals(1, actual.value() / expected, 1e-6, "seed " + seed);
    }

    @Test
    void theSimulatorsRingsTakeAsLong() {
        var weights = new Bytes(3L * D * F * 2);
        for (int n : new int[] {2, 4, 8, 16}) {
            assertEquals(
                    1,
                    simulated(Collective.ALL_REDUCE, weights, n)
                            / on(n, 1).dataParallelAllReduce().value(),
                    1e-6);
            assertEquals(
                    1,
                    simulated(Collective.ALL_GATHER, weights, n)
                            / on(n, 1).fsdpForward().value(),
                    1e-6);
        }
    }

    @Test
    void atTheBoundsComputationTakesAsLongAsCommunication() {
        for (int x : new int[] {2, 4, 8}) {
            for (int y : new int[] {1, 2, 4}) {
                FeedForwardParallelism layer = on(x, y);
                Tokens batch = layer.smallestBatch();
                double ratio =
                        layer.fsdpForward().value() / layer.forward(batch).value();
                assertTrue(ratio <= 1 && ratio > 0.999, x + " × " + y + ": " + ratio);
            }
        }
        var batch = new Tokens(100_000);
        int most = on(1, 1).mostTensorDevices();
        assertTrue(on(1, most).tensorAllReduce(batch).compareTo(on(1, most).forward(batch)) <= 0);
        assertTrue(
                on(1, most + 1).tensorAllReduce(batch).compareTo(on(1, most + 1).forward(batch)) > 0);
    }

    /**
     * With a = B·W/C and t = 3·F·W/(2·C), the communications of both kinds take (X−1)/a and (Y−1)/t of the computation.
     */
    @Test
    void withoutOverlapFsdpAndTensorParallelismHoldOnAQuarterOfTheDevices() {
        var batch = new Tokens(440_000);
        double a = batch.count() / Accelerator.H200.intensity();
        double t = 1.5 * 53_248 / Accelerator.H200.intensity();
        int overlapped = 0;
        int sequential = 0;
        for (int x = 1; x < a + 3; x++) {
            for (int y = 1; y < t + 3; y++) {
                var layer = new FeedForwardParallelism(16_384, 53_248, Accelerator.H200, x, y);
                double computation = layer.forward(batch).value();
                double weights = layer.fsdpForward().value() / computation;
                double activations = layer.tensorAllReduce(batch).value() / computation;
                assertEquals((x - 1) / a, weights, 1e-5, x + " × " + y);
                assertEquals((y - 1) / t, activations, 1e-5, x + " × " + y);
                overlapped = Math.max(overlapped, Math.max(weights, activations) <= 1 ? x * y : 0);
                sequential = Math.max(sequential, weights + activations <= 1 ? x * y : 0);
            }
        }
        assertEquals(1, overlapped / (a * t), 0.05);
        assertEquals(0.25, sequential / (a * t), 0.02);
    }
}
