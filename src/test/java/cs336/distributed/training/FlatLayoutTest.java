package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelSize;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class FlatLayoutTest {
    private static Map<String, Long> sizes(long... numbers) {
        var sizes = new LinkedHashMap<String, Long>();
        for (int i = 0; i < numbers.length; i++) sizes.put("p" + i, numbers[i]);
        return sizes;
    }

    private static List<List<String>> names(FlatLayout layout) {
        return layout.buckets().stream()
                .map(b -> b.slots().stream().map(FlatLayout.ParameterSlot::name).toList())
                .toList();
    }

    @Test
    void bucketsTakeParametersInOrderUpToTheirCapacityAndALargeOneIsAlone() {
        FlatLayout layout = FlatLayout.of(sizes(8, 8, 8, 100, 8, 16), 24, 2);
        assertEquals(List.of(List.of("p0", "p1", "p2"), List.of("p3"), List.of("p4", "p5")), names(layout));
    }

    @Test
    void aStretchMayBeginInsideOfAParameter() {
        FlatLayout.ShardedBucket bucket =
                FlatLayout.of(sizes(40, 5, 19), 1000, 2).buckets().get(0);
        // 40 numbers, 5 with 3 left over, 19 with 5: 72, of which each rank has 40 (36, rounded up).
        assertEquals(40, bucket.shardElements());
        assertEquals(80, bucket.elements());
        assertEquals(List.of(new FlatLayout.ParameterShard("p0", 0, 0, 40)), bucket.shard(0));
        assertEquals(
                List.of(new FlatLayout.ParameterShard("p1", 0, 40, 5), new FlatLayout.ParameterShard("p2", 0, 48, 19)),
                bucket.shard(1));
        FlatLayout.ShardedBucket thirds =
                FlatLayout.of(sizes(40, 5, 19), 1000, 3).buckets().get(0);
        assertEquals(
                new FlatLayout.ParameterShard("p0", 24, 24, 16), thirds.shard(1).get(0));
    }

    @Test
    void everyNumberIsOwnedExactlyOnce() {
        long seed = System.nanoTime();
        var random = new Random(seed);
        for (int trial = 0; trial < 100; trial++) {
            int ranks = 1 + random.nextInt(5);
            Map<String, Long> sizes =
                    sizes(random.longs(1 + random.nextInt(12), 0, 90).toArray());
            var owned = new LinkedHashMap<String, Long>();
            for (FlatLayout.ShardedBucket bucket :
                    FlatLayout.of(sizes, 1 + random.nextInt(200), ranks).buckets()) {
                for (int rank = 0; rank < ranks; rank++) {
                    for (FlatLayout.ParameterShard piece : bucket.shard(rank)) {
                        // Pieces come in the order of a parameter's numbers, without gap or overlap.
                        assertEquals(owned.getOrDefault(piece.name(), 0L), piece.offsetInParameter(), "seed " + seed);
                        owned.merge(piece.name(), piece.elements(), Long::sum);
                        assertEquals(rank, piece.offsetInBucket() / bucket.shardElements(), "seed " + seed);
                        assertTrue(piece.offsetInBucket() + piece.elements() <= (rank + 1) * bucket.shardElements());
                    }
                }
            }
            sizes.values().removeIf(n -> n == 0);
            assertEquals(sizes, owned, "seed " + seed);
        }
    }

    @Test
    void hardlyAnythingIsLeftOverInALargeModel() {
        Map<String, Long> sizes = ShardAssignmentTest.sizesOf(ModelSize.XL.config());
        sizes.replaceAll((name, bytes) -> bytes / 4);
        long laid = FlatLayout.of(sizes, 25_000_000, 4).buckets().stream()
                .mapToLong(FlatLayout.ShardedBucket::elements)
                .sum();
        long numbers = ModelSize.XL.config().parameterCount();
        assertTrue(laid >= numbers && laid < 1.0001 * numbers, laid + " for " + numbers);
    }
}
