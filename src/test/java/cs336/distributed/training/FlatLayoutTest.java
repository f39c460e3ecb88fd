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
    private static Map<String, Long> sizes(long... elements) {
        var sizes = new LinkedHashMap<String, Long>();
        for (int i = 0; i < elements.length; i++) {
            sizes.put("p" + i, elements[i]);
        }
        return sizes;
    }

    private static List<List<String>> names(FlatLayout layout) {
        return layout.buckets().stream()
                .map(b -> b.slots().stream().map(FlatLayout.ParameterSlot::name).toList())
                .toList();
    }

    @Test
    void bucketsTakeParametersInOrderUpToTheirCapacityAndALargeOneGetsItsOwn() {
        FlatLayout layout = FlatLayout.of(sizes(8, 8, 8, 100, 8, 16), 24, 2);
        assertEquals(List.of(List.of("p0", "p1", "p2"), List.of("p3"), List.of("p4", "p5")), names(layout));
    }

    @Test
    void aShardMayStartInsideAParameter() {
        FlatLayout.ShardedBucket bucket =
                FlatLayout.of(sizes(40, 5, 19), 1000, 2).buckets().get(0);
        // 40 elements, 5 + 3 padding, 19 + 5 padding: 72 in total, so 36 per rank, rounded up to 40.
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
    void everyElementIsInExactlyOneShard() {
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
                    for (FlatLayout.ParameterShard part : bucket.shard(rank)) {
                        // The parts of a parameter come in order, without gap or overlap.
                        assertEquals(owned.getOrDefault(part.name(), 0L), part.offsetInParameter(), "seed " + seed);
                        owned.merge(part.name(), part.elements(), Long::sum);
                        assertEquals(rank, part.offsetInBucket() / bucket.shardElements(), "seed " + seed);
                        assertTrue(part.offsetInBucket() + part.elements() <= (rank + 1) * bucket.shardElements());
                    }
                }
            }
            sizes.values().removeIf(n -> n == 0);
            assertEquals(sizes, owned, "seed " + seed);
        }
    }

    @Test
    void paddingOfALargeModelIsSmall() {
        Map<String, Long> sizes = ShardAssignmentTest.sizesOf(ModelSize.XL.config());
        sizes.replaceAll((name, bytes) -> bytes / 4);
        long padded = FlatLayout.of(sizes, 25_000_000, 4).buckets().stream()
                .mapToLong(FlatLayout.ShardedBucket::elements)
                .sum();
        long elements = ModelSize.XL.config().parameterCount();
        assertTrue(padded >= elements && padded < 1.0001 * elements, padded + " for " + elements);
    }
}
