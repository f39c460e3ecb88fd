package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.Random;
import org.junit.jupiter.api.Test;

class BucketModelTest {
    private static final Bytes GRADIENTS = new Bytes(8_000_000_000L);

    /** Returns the overhead by following the buckets one after the other. */
    private static double stepped(long bytes, double bandwidth, double callOverhead, double backward, int buckets) {
        double end = 0;
        for (int k = 1; k <= buckets; k++) {
            double ready = k * backward / buckets;
            end = Math.max(end, ready) + (double) bytes / buckets / bandwidth + callOverhead;
        }
        return end - backward;
    }

    @Test
    void theFormulaAgreesWithSendingBucketAfterBucket() {
        long seed = System.nanoTime();
        var random = new Random(seed);
        for (int i = 0; i < 1000; i++) {
            long bytes = Math.round(Math.pow(10, 6 + 4 * random.nextDouble()));
            double bandwidth = Math.pow(10, 9 + 3 * random.nextDouble());
            double callOverhead = Math.pow(10, -6 + 3 * random.nextDouble());
            double backward = Math.pow(10, -3 + 3 * random.nextDouble());
            int buckets = 1 + random.nextInt(200);
            double expected = stepped(bytes, bandwidth, callOverhead, backward, buckets);
            var model = new BucketModel(
                    new Bytes(bytes), new Bandwidth(bandwidth), new Seconds(callOverhead), new Seconds(backward));
            double got = model.overhead(buckets).value();
            assertEquals(expected, got, 1e-9 * (expected + backward), "seed " + seed);
        }
    }

    @Test
    void withEqualTimesTheOverheadIsTheLastBucketPlusAllCalls() {
        var model = BucketModel.equalTimes(GRADIENTS, Bandwidth.gb(320), Seconds.us(20));
        for (int n : new int[] {1, 8, 80, 800}) {
            assertEquals(8e9 / (n * 320e9) + n * 20e-6, model.overhead(n).value(), 1e-12);
        }
        assertEquals(Math.sqrt(8e9 * 320e9 * 20e-6), model.bestBucket().count(), 1);
    }

    @Test
    void noOtherNumberOfBucketsIsBetterThanTheBest() {
        // The link is faster than the backward pass, equally fast, and slower.
        for (double backward : new double[] {200, 25, 3}) {
            var model = new BucketModel(GRADIENTS, Bandwidth.gb(320), Seconds.us(20), Seconds.ms(backward));
            double best = model.overhead(model.bestBuckets()).value();
            for (double n = 1; n < 1e5; n *= 1.01) {
                assertTrue(best <= model.overhead(n).value() * (1 + 1e-12), "n " + n);
            }
        }
    }

    @Test
    void invalidArgumentsAreRejected() {
        assertThrows(
                IllegalArgumentException.class,
                () -> new BucketModel(GRADIENTS, Bandwidth.gb(320), Seconds.ZERO, Seconds.ms(100)));
        assertThrows(
                IllegalArgumentException.class,
                () -> BucketModel.equalTimes(GRADIENTS, Bandwidth.gb(320), Seconds.us(20))
                        .overhead(0));
    }
}
