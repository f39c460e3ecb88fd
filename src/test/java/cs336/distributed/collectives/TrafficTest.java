package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.distributed.collectives.Traffic.Volume;
import java.util.Map;
import org.junit.jupiter.api.Test;

class TrafficTest {
    private static double leastSent(String operation, long bytes, int ranks) {
        return new Traffic(Map.of(operation, new Volume(1, bytes))).leastSent(ranks);
    }

    @Test
    void leastSentIsTheDataThatRanksLackAveragedOverRanks() {
        int n = 4;
        long whole = 1200; // of which each rank has 300
        assertEquals((n - 1) * whole / (double) n, leastSent("broadcast", whole, n));
        assertEquals(n * (n - 1) * 300 / (double) n, leastSent("all-gather", whole, n));
        assertEquals(n * (n - 1) * 300 / (double) n, leastSent("reduce-scatter", whole, n));
        assertEquals(2 * n * (n - 1) * 300 / (double) n, leastSent("all-reduce", whole, n));
        assertEquals(leastSent("all-reduce", 16, n), leastSent("barrier", 16, n));
        assertEquals((n - 1) * 300 / (double) n, leastSent("gather of values", whole, n));
        assertEquals(0, leastSent("all-reduce", whole, 1));
    }

    @Test
    void differencesAreCountedByOperation() {
        var before = new Traffic(Map.of("broadcast", new Volume(2, 20), "all-reduce", new Volume(1, 7)));
        var now = new Traffic(Map.of("broadcast", new Volume(5, 90), "all-reduce", new Volume(1, 7)));
        assertEquals(Map.of("broadcast", new Volume(3, 70)), now.since(before).byOperation());
        assertEquals(new Volume(0, 0), now.of("barrier"));
    }
}
