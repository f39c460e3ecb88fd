package cs336.scaling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.scaling.Cluster.Algorithm;
import cs336.scaling.Cluster.DeviceGroup;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class ClusterTest {
    private static final Link FAST = new Link("fast", new Seconds(1), new Bandwidth(100));
    private static final Link SLOW = new Link("slow", new Seconds(5), new Bandwidth(10));
    private static final Cluster CLUSTER = new Cluster(4, FAST, SLOW, Seconds.ZERO);

    private static double time(Collective how, long bytes, int ranks, Algorithm algorithm) {
        return CLUSTER.time(how, new Bytes(bytes), CLUSTER.group(ranks, 1), algorithm)
                .value();
    }

    @Test
    void smallRingsAreComputedByHand() {
        // two ranks: 2 steps, each 200 bytes at 100 bytes/s and a latency of 1 s
        assertEquals(2 * (1 + 2), time(Collective.ALL_REDUCE, 400, 2, Algorithm.RING));
        assertEquals(1 + 2, time(Collective.ALL_GATHER, 400, 2, Algorithm.RING));
        assertEquals(6 * (1 + 1), time(Collective.ALL_REDUCE, 400, 4, Algorithm.RING));
        assertEquals(0, time(Collective.ALL_REDUCE, 400, 1, Algorithm.BEST));
    }

    @Test
    void aSimulatedRingTakesTheTimeOfTheFormula() {
        for (int n = 2; n <= 4; n++) {
            var messages = new MessageSimulation(CLUSTER, new DeviceGroup(n, 4), new Bytes(1200));
            assertEquals(
                    time(Collective.ALL_REDUCE, 1200, n, Algorithm.RING),
                    messages.ring().finish().value(),
                    1e-9);
        }
    }

    @Test
    void aSimulatedRingOverNodesAgreesWithTheFormulaToAFewPercent() {
        // Four adapters of a node have 40 bytes/s together; the formula neglects the time that links wait for slower
        // ones.
        for (long bytes : new long[] {16, 16_000, 1_600_000}) {
            var messages = new MessageSimulation(CLUSTER, new DeviceGroup(16, 4), new Bytes(bytes));
            double simulated = messages.ring().finish().value();
            double formula = time(Collective.ALL_REDUCE, bytes, 16, Algorithm.RING);
            assertEquals(simulated, formula, 0.12 * simulated, "bytes " + bytes);
        }
    }

    @Test
    void everyRankOfARingSendsTheBytesOfTheCollective() {
        var messages = new MessageSimulation(CLUSTER, new DeviceGroup(4, 4), new Bytes(1200));
        Schedule schedule = messages.ring();
        for (int rank = 0; rank < 4; rank++) {
            double sent = schedule.busy(String.valueOf(rank)).value() * 100;
            assertEquals(Collective.ALL_REDUCE.sent(new Bytes(1200), 4).count(), sent, 1e-9);
        }
    }

    @Test
    void aTreeOfTwoRanksIsComputedByHand() {
        // each tree has half of the 400 bytes: up takes 1 + 2 s, down as well, and both trees run at the same time
        var messages = new MessageSimulation(CLUSTER, new DeviceGroup(2, 4), new Bytes(400));
        assertEquals(2 * (1 + 2), messages.tree(1).finish().value());
    }

    @Test
    void inTwoTreesEveryRankSendsThePayloadAtMostTwice() {
        int n = 16;
        var messages = new MessageSimulation(CLUSTER, new DeviceGroup(n, n), new Bytes(3200));
        Schedule schedule = messages.tree(8);
        assertEquals(2 * 8 * 2 * (n - 1), schedule.spans().size());
        double most = IntStream.range(0, n)
                .mapToDouble(rank -> schedule.busy(String.valueOf(rank)).value() * 100)
                .max()
                .orElseThrow();
        assertTrue(most <= 2 * 3200 * 1.01, "sent " + most);
    }

    @Test
    void aSimulatedTreeAgreesWithTheFormulaForLargeAndSmallPayloads() {
        // One device per node, so that all links are of one class.
        var nodes = new Cluster(1, FAST, FAST, Seconds.ZERO);
        DeviceGroup group = nodes.group(32, 1);
        for (long bytes : new long[] {64, 64_000_000}) {
            var payload = new Bytes(bytes);
            double simulated = new MessageSimulation(nodes, group, payload)
                    .tree(bytes > 64 ? 256 : 1)
                    .finish()
                    .value();
            double formula = nodes.time(Collective.ALL_REDUCE, payload, group, Algorithm.TREE)
                    .value();
            assertEquals(simulated, formula, 0.25 * simulated, "bytes " + bytes);
        }
    }

    @Test
    void smallPayloadsTakeTheTreeAndLargeOnesTheRing() {
        var h200 = Cluster.H200;
        DeviceGroup many = h200.group(1024, 1);
        DeviceGroup few = h200.group(16, 1);
        var small = new Bytes(1_000_000);
        var large = new Bytes(100_000_000_000L);
        assertEquals(
                h200.time(Collective.ALL_REDUCE, small, many, Algorithm.TREE),
                h200.time(Collective.ALL_REDUCE, small, many, Algorithm.BEST));
        assertEquals(
                h200.time(Collective.ALL_REDUCE, large, few, Algorithm.RING),
                h200.time(Collective.ALL_REDUCE, large, few, Algorithm.BEST));
    }

    @Test
    void withInfiniteBandwidthOnlyLatencyCounts() {
        var infinite = new Bandwidth(Double.POSITIVE_INFINITY);
        var cluster = new Cluster(4, FAST.withBandwidth(infinite), SLOW.withBandwidth(infinite), new Seconds(3));
        // a launch of 3 s, and 2 · (4 − 1) steps with a latency of 1 s
        assertEquals(
                3 + 6,
                cluster.time(Collective.ALL_REDUCE, new Bytes(1L << 40), cluster.group(4, 1), Algorithm.RING)
                        .value());
    }

    @Test
    void ringsAndTreesHaveTheirOwnLatencies() {
        var link = new Link("link", new Seconds(1), new Seconds(3), new Bandwidth(Double.POSITIVE_INFINITY));
        var nodes = new Cluster(1, link, link, Seconds.ZERO);
        var group = new DeviceGroup(4, 1);
        var payload = new Bytes(1200);
        assertEquals(
                new Seconds(2 * 3 * 1), nodes.time(Collective.ALL_REDUCE, payload, group, Algorithm.RING)); // 3 steps
        assertEquals(
                new Seconds(2 * 2 * 3), nodes.time(Collective.ALL_REDUCE, payload, group, Algorithm.TREE)); // 2 levels
        var messages = new MessageSimulation(nodes, group, payload);
        assertEquals(new Seconds(6), messages.ring().finish());
        assertEquals(new Seconds(12), messages.tree(1).finish());
    }

    @Test
    void anAxisAcrossNodesHasOneDevicePerNode() {
        assertEquals(new DeviceGroup(64, 8), Cluster.H200.group(64, 1));
        assertEquals(new DeviceGroup(64, 1), Cluster.H200.group(64, 8));
        assertEquals(new DeviceGroup(2, 2), Cluster.H200.group(2, 4));
        assertEquals(50e9, Cluster.H200.bandwidth(new DeviceGroup(64, 1)).bytesPerSecond());
        assertEquals(400e9, Cluster.H200.bandwidth(new DeviceGroup(64, 8)).bytesPerSecond());
    }
}
