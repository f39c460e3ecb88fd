package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cs336.scaling.BucketSequence.CompleteBucket;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

class BucketSequenceTest {
    private static final Function<Bytes, Seconds> SECOND_PER_BYTE = bytes -> new Seconds(bytes.count());

    private static CompleteBucket bucket(long bytes, double ready) {
        return new CompleteBucket(new Bytes(bytes), new Seconds(ready));
    }

    private static double exposed(double backward, double slowdown, CompleteBucket... buckets) {
        return new BucketSequence(List.of(buckets))
                .exposed(new Seconds(backward), SECOND_PER_BYTE, slowdown)
                .value();
    }

    @Test
    void aBucketStartsWhenItIsCompleteAndTheLinkIsFree() {
        assertEquals(3, exposed(10, 1, bucket(4, 5), bucket(3, 10)), "the link is free at 9");
        assertEquals(6, exposed(10, 1, bucket(7, 6), bucket(3, 10)), "the link is free at 13");
        assertEquals(0, exposed(10, 1, bucket(4, 2), bucket(3, 7)), "all ends in the backward pass");
    }

    @Test
    void slowdownEndsWithTheBackwardPass() {
        assertEquals(1, exposed(10, 2, bucket(3, 6)), "half of the 4 s in the pass is lost");
        assertEquals(3, exposed(10, 2, bucket(3, 10)), "nothing starts in the pass");
        assertEquals(0, exposed(10, 2, bucket(3, 4)), "6 s in the pass");
        assertThrows(IllegalArgumentException.class, () -> exposed(10, 0.9, bucket(3, 4)));
    }

    @Test
    void equalBucketsFollowTheFormula() {
        long seed = System.nanoTime();
        var random = new Random(seed);
        for (int i = 0; i < 200; i++) {
            int n = 1 + random.nextInt(50);
            long each = 1 + random.nextInt(1_000_000_000);
            var bandwidth = Bandwidth.gb(1 + 400 * random.nextDouble());
            Seconds call = Seconds.us(1 + 100 * random.nextDouble());
            Seconds backward = Seconds.ms(1 + 500 * random.nextDouble());
            List<CompleteBucket> buckets = new ArrayList<>();
            for (int k = 1; k <= n; k++) {
                buckets.add(bucket(each, k * backward.value() / n));
            }
            double sent = new BucketSequence(buckets)
                    .exposed(backward, bytes -> bytes.over(bandwidth).plus(call), 1)
                    .value();
            double formula = new BucketModel(new Bytes(n * each), bandwidth, call, backward)
                    .overhead(n)
                    .value();
            assertEquals(formula, sent, 1e-9 * (formula + backward.value()), "seed " + seed);
        }
    }

    @Test
    void timesAreInterpolatedBetweenMeasuredSizes() {
        var times = new TimeBySize(Map.of(new Bytes(100), new Seconds(2), new Bytes(200), new Seconds(4)));
        assertEquals(2, times.at(new Bytes(7)).value());
        assertEquals(2, times.at(new Bytes(100)).value());
        assertEquals(2.5, times.at(new Bytes(125)).value(), 1e-12);
        assertEquals(4, times.at(new Bytes(200)).value());
        assertEquals(8, times.at(new Bytes(400)).value());
        assertThrows(IllegalArgumentException.class, () -> new TimeBySize(Map.of()));
    }
}
