package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class BucketModelTest {
    private static final double MS = 1e-3;

    /** Buckets one by one, as the formula's derivation has them. */
    private static double stepped(double bytes, double bandwidth, double callOverhead, double backward, int buckets) {
        double end = 0;
        for (int k = 1; k <= buckets; k++) {
            double ready = k * backward / buckets;
            end = Math.max(end, ready) + bytes / buckets / bandwidth + callOverhead;
        }
        return end - backward;
    }

    @Test
    void theFormulaIsWhatSendingBucketAfterBucketGives() {
        long seed = System.nanoTime();
        var random = new Random(seed);
        for (int i = 0; i < 1000; i++) {
            double bytes = Math.pow(10, 6 + 4 * random.nextDouble());
            double bandwidth = Math.pow(10, 9 + 3 * random.nextDouble());
            double callOverhead = Math.pow(10, -6 + 3 * random.nextDouble());
            double backward = Math.pow(10, -3 + 3 * random.nextDouble());
            int buckets = 1 + random.nextInt(200);
            double expected = stepped(bytes, bandwidth, callOverhead, backward, buckets);
            double got = new BucketModel(bytes, bandwidth, callOverhead, backward).overhead(buckets);
            assertEquals(expected, got, 1e-9 * (expected + backward), "seed " + seed);
        }
    }

    @Test
    void withEqualTimesTheOverheadIsTheLastBucketAndEveryCall() {
        var model = BucketModel.equalTimes(8e9, 320e9, 20e-6);
        for (int n : new int[] {1, 8, 80, 800}) {
            assertEquals(8e9 / (n * 320e9) + n * 20e-6, model.overhead(n), 1e-12);
        }
        assertEquals(Math.sqrt(8e9 * 320e9 * 20e-6), model.bestBucketBytes(), 1);
    }

    @Test
    void noOtherNumberOfBucketsIsBetterThanTheBest() {
        // A link that is faster than the backward pass, as fast, and slower.
        for (double backward : new double[] {200 * MS, 25 * MS, 3 * MS}) {
            var model = new BucketModel(8e9, 320e9, 20e-6, backward);
            double best = model.overhead(model.bestBuckets());
            for (double n = 1; n < 1e5; n *= 1.01) assertTrue(best <= model.overhead(n) * (1 + 1e-12), "n " + n);
        }
    }

    @Test
    void aFitFindsTheModelThatMadeTheTimes() {
        double[] buckets = {435, 300, 170, 80, 17, 9, 1};
        // The link waits for the backward pass, the other way round, and each for some of the buckets.
        for (double backward : new double[] {2000 * MS, 5 * MS, 30 * MS}) {
            var truth = new BucketModel(8e9, 320e9, 40e-6, backward);
            double[] overheads = Arrays.stream(buckets).map(truth::overhead).toArray();
            BucketModel fit = BucketModel.fit(8e9, backward, buckets, overheads);
            assertEquals(320e9, fit.bandwidth(), 1e-3 * 320e9, "backward " + backward);
            assertEquals(40e-6, fit.callOverhead(), 1e-3 * 40e-6, "backward " + backward);
        }
    }

    @Test
    void whatCannotBeFittedIsRefused() {
        double[] same = {8, 8};
        var error = assertThrows(
                IllegalArgumentException.class, () -> BucketModel.fit(8e9, 0.1, same, new double[] {1e-3, 1e-3}));
        assertTrue(error.getMessage().contains("different sizes"), error.getMessage());
        assertThrows(IllegalArgumentException.class, () -> new BucketModel(8e9, 0, 1e-5, 0.1));
    }
}
