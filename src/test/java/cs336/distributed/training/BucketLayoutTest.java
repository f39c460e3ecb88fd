package cs336.distributed.training;

import static cs336.torch.DType.BFLOAT16;
import static cs336.torch.DType.FLOAT32;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.distributed.training.BucketLayout.Bucket;
import cs336.distributed.training.BucketLayout.ParameterSize;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class BucketLayoutTest {
    private static List<List<Integer>> members(BucketLayout layout) {
        return layout.buckets().stream().map(Bucket::parameters).toList();
    }

    private static List<ParameterSize> floats(long... elements) {
        return IntStream.range(0, elements.length)
                .mapToObj(i -> new ParameterSize(elements[i], FLOAT32))
                .toList();
    }

    @Test
    void bucketsFillFromTheLastParameterToTheFirst() {
        // The plain toy model: 400, 2000 and 1000 bytes.
        List<ParameterSize> toy = floats(100, 500, 250);
        assertEquals(List.of(List.of(2), List.of(1), List.of(0)), members(BucketLayout.of(toy, 1600)));
        assertEquals(List.of(List.of(2), List.of(1), List.of(0)), members(BucketLayout.of(toy, 100)));
        assertEquals(List.of(List.of(2, 1, 0)), members(BucketLayout.of(toy, 10_000)));
        assertEquals(List.of(List.of(2, 1), List.of(0)), members(BucketLayout.of(toy, 3000)));
        assertEquals(List.of(List.of(2), List.of(1, 0)), members(BucketLayout.of(toy, 2999)));
    }

    @Test
    void aTensorLargerThanABucketGetsItsOwn() {
        assertEquals(
                List.of(List.of(4, 3), List.of(2), List.of(1, 0)),
                members(BucketLayout.of(floats(10, 10, 1000, 10, 10), 200)));
    }

    @Test
    void everyDtypeHasItsOwnBuckets() {
        List<ParameterSize> mixed = List.of(
                new ParameterSize(10, FLOAT32),
                new ParameterSize(10, BFLOAT16),
                new ParameterSize(10, FLOAT32),
                new ParameterSize(10, BFLOAT16));
        // The bf16 bucket is complete with parameter 1, the fp32 bucket with parameter 0.
        assertEquals(List.of(List.of(3, 1), List.of(2, 0)), members(BucketLayout.of(mixed, 1000)));
        assertEquals(
                20 * BFLOAT16.bytes(),
                BucketLayout.of(mixed, 1000).buckets().get(0).bytes());
    }

    @Test
    void everyParameterIsInOneBucketAndNoneIsTooLarge() {
        long seed = System.nanoTime();
        var random = new Random(seed);
        for (int round = 0; round < 200; round++) {
            List<ParameterSize> sizes = new ArrayList<>();
            for (int i = 0; i < 1 + random.nextInt(50); i++) {
                sizes.add(new ParameterSize(1 + random.nextInt(500), random.nextInt(4) == 0 ? BFLOAT16 : FLOAT32));
            }
            long most = 1 + random.nextInt(3000);
            List<Bucket> buckets = BucketLayout.of(sizes, most).buckets();
            List<Integer> all = buckets.stream()
                    .flatMap(b -> b.parameters().stream())
                    .sorted()
                    .toList();
            assertEquals(IntStream.range(0, sizes.size()).boxed().toList(), all, "seed " + seed);
            for (Bucket bucket : buckets) {
                assertTrue(bucket.bytes() <= most || bucket.parameters().size() == 1, "seed " + seed);
                long bytes = bucket.parameters().stream()
                        .mapToLong(i -> sizes.get(i).bytes())
                        .sum();
                assertEquals(bytes, bucket.bytes(), "seed " + seed);
                assertTrue(
                        bucket.parameters().stream().allMatch(i -> sizes.get(i).dtype() == bucket.dtype()));
            }
        }
    }

    @Test
    void anEmptySizeIsRejected() {
        assertThrows(IllegalArgumentException.class, () -> BucketLayout.of(floats(1), 0));
        assertThrows(IllegalArgumentException.class, () -> Strategy.bucketed(0));
        assertThrows(IllegalArgumentException.class, () -> Strategy.bucketed(Double.NaN));
        assertThrows(IllegalArgumentException.class, () -> Strategy.bucketed(1e13));
        assertThrows(IllegalArgumentException.class, () -> Sharding.allGather(Double.POSITIVE_INFINITY));
        assertEquals(1600, ((Strategy.Bucketed) Strategy.bucketed(0.0016)).bytes());
        var error = assertThrows(IllegalArgumentException.class, () -> Strategy.parse("ring", 25));
        assertEquals("mode 'ring' is unknown; known: naive, flat, overlapped, bucketed", error.getMessage());
    }

    @Test
    void aBucketPrecedesAnotherThatBeginsEarlierButFillsLater() {
        List<ParameterSize> sizes =
                List.of(new ParameterSize(1, BFLOAT16), new ParameterSize(1, FLOAT32), new ParameterSize(1, BFLOAT16));
        List<List<Integer>> members = BucketLayout.of(sizes, 100).buckets().stream()
                .map(Bucket::parameters)
                .toList();
        assertEquals(List.of(List.of(1), List.of(2, 0)), members);
    }
}
