package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelSize;
import cs336.basics.TransformerConfig;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ShardAssignmentTest {
    private static Map<String, Long> sizes(long... bytes) {
        var sizes = new LinkedHashMap<String, Long>();
        for (int i = 0; i < bytes.length; i++) {
            sizes.put("p" + i, bytes[i]);
        }
        return sizes;
    }

    /** Returns the bytes of each parameter of a model in fp32. */
    static Map<String, Long> sizesOf(TransformerConfig c) {
        var sizes = new LinkedHashMap<String, Long>();
        long d = c.dModel();
        sizes.put("token_embeddings", 4L * c.vocabSize() * d);
        for (int layer = 0; layer < c.numLayers(); layer++) {
            for (String name : new String[] {"q", "k", "v", "o"}) {
                sizes.put(layer + name, 4 * d * d);
            }
            for (String name : new String[] {"w1", "w2", "w3"}) {
                sizes.put(layer + name, 4 * d * c.dFf());
            }
            for (String name : new String[] {"ln1", "ln2"}) {
                sizes.put(layer + name, 4 * d);
            }
        }
        sizes.put("ln_final", 4 * d);
        sizes.put("lm_head", 4L * c.vocabSize() * d);
        return sizes;
    }

    @Test
    void theLargestGoesFirstToTheRankWithTheFewestBytes() {
        var assignment = new ShardAssignment(2);
        assignment.add(sizes(1, 5, 3, 3));
        assertEquals("{p0=0, p1=0, p2=1, p3=1}", assignment.owners().toString());
        assertArrayEquals(new long[] {6, 6}, assignment.bytes());
    }

    @Test
    void aCopyContinuesWithTheBytesOfTheOriginalAndDoesNotChangeIt() {
        var assignment = new ShardAssignment(2);
        assignment.add(sizes(10, 4));
        ShardAssignment copy = assignment.copy();
        copy.add(Map.of("new", 5L));
        assertEquals("{p0=0, p1=1, new=1}", copy.owners().toString());
        assertArrayEquals(new long[] {10, 9}, copy.bytes());
        assertEquals("{p0=0, p1=1}", assignment.owners().toString());
        assertArrayEquals(new long[] {10, 4}, assignment.bytes());
    }

    @Test
    void laterParametersDoNotChangeEarlierAssignments() {
        var assignment = new ShardAssignment(3);
        assignment.add(sizes(10, 4));
        assignment.add(Map.of("new", 6L));
        assertEquals("{p0=0, p1=1, new=2}", assignment.owners().toString());
    }

    @ParameterizedTest
    @CsvSource({"SMALL, 2", "SMALL, 4", "LARGE, 2", "LARGE, 3", "XL, 2", "XL, 4", "XL, 8", "B2_7, 8"})
    void bytesOfModelsAreBalancedWithinOnePercent(ModelSize size, int ranks) {
        var assignment = new ShardAssignment(ranks);
        Map<String, Long> sizes = sizesOf(size.config());
        assignment.add(sizes);
        assertEquals(
                4 * size.config().parameterCount(),
                Arrays.stream(assignment.bytes()).sum());
        assertTrue(
                ShardAssignment.imbalance(assignment.bytes()) < 1.011,
                () -> "max / mean " + ShardAssignment.imbalance(assignment.bytes()));
    }

    @Test
    void roundRobinWouldNotBeBalanced() {
        // Round robin over tensors is unbalanced here, so this test can fail.
        Map<String, Long> sizes = sizes(100, 1, 100, 1);
        long[] roundRobin = {200, 2};
        var assignment = new ShardAssignment(2);
        assignment.add(sizes);
        assertEquals(200 / 101.0, ShardAssignment.imbalance(roundRobin), 1e-12);
        assertEquals(1, ShardAssignment.imbalance(assignment.bytes()));
    }

    @Test
    void noRankHasMoreThanGrahamsBound() {
        long seed = System.nanoTime();
        var random = new Random(seed);
        for (int trial = 0; trial < 200; trial++) {
            int ranks = 1 + random.nextInt(6);
            var assignment = new ShardAssignment(ranks);
            Map<String, Long> sizes =
                    sizes(random.longs(1 + random.nextInt(40), 1, 1000).toArray());
            assignment.add(sizes);
            long sum = sizes.values().stream().mapToLong(Long::longValue).sum();
            long largest =
                    sizes.values().stream().mapToLong(Long::longValue).max().orElseThrow();
            long most = Arrays.stream(assignment.bytes()).max().orElseThrow();
            assertEquals(sum, Arrays.stream(assignment.bytes()).sum());
            assertTrue(most <= (double) sum / ranks + largest, "seed " + seed);
        }
    }

    @Test
    void thereIsAtLeastOneRank() {
        for (int ranks : new int[] {0, -1}) {
            var e = assertThrows(IllegalArgumentException.class, () -> new ShardAssignment(ranks));
            assertEquals("ranks must be at least 1, not " + ranks, e.getMessage());
        }
    }
}
