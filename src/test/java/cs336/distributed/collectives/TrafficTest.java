package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.distributed.collectives.Traffic.Volume;
import cs336.torch.DType;
import java.util.List;
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
    void callsOfShardsCountTheBytesOfAllRanks() {
        var meter = new Traffic.Meter();
        List<String> operations = List.of(
                "all-gather",
                "all-gather of values",
                "gather of values (root 1)",
                "reduce-scatter (average)",
                "all-reduce (sum)",
                "broadcast (root 0)");
        for (String operation : operations) {
            meter.count(new CollectiveCall(operation, DType.BFLOAT16, List.of(5L, 3L)), 4);
        }
        meter.count(new CollectiveCall("broadcast (root 2)", DType.FLOAT64, List.of()), 4);
        Map<String, Volume> expected = Map.of(
                "all-gather", new Volume(1, 120),
                "all-gather of values", new Volume(1, 120),
                "gather of values", new Volume(1, 120),
                "reduce-scatter", new Volume(1, 120),
                "all-reduce", new Volume(1, 30),
                "broadcast", new Volume(2, 38));
        assertEquals(expected, meter.traffic().byOperation());
    }

    @Test
    void differencesAreCountedByOperation() {
        var before = new Traffic(Map.of("broadcast", new Volume(2, 20), "all-reduce", new Volume(1, 7)));
        var now = new Traffic(Map.of("broadcast", new Volume(5, 90), "all-reduce", new Volume(1, 7)));
        assertEquals(Map.of("broadcast", new Volume(3, 70)), now.since(before).byOperation());
        assertEquals(new Volume(0, 0), now.of("barrier"));
    }
}
