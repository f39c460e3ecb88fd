package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;

/**
 * Devices in nodes, joined by one class of links in a node and another one between nodes, and how long collectives take
 * on them.
 *
 * <p>In a ring each device sends to the next one, and the devices of a node are neighbours. A node has an adapter a
 * device and builds as many rings as it has devices in the group, each leaving through another adapter, so that a group
 * with g devices a node has g adapters' bandwidth between nodes.
 *
 * @param perNode devices of a node
 * @param within link between devices of a node
 * @param between link between nodes, for each device's adapter
 * @param launch what a collective takes beside its messages
 */
public record Cluster(int perNode, Link within, Link between, Seconds launch) {
    /**
     * NVIDIA H200s, eight a node. Latencies of a hop are those of NCCL's own model (src/graph/tuning.cc, protocol
     * LL128: 1.9 µs in a ring over NVLink, 8.5 µs in a tree over a network; in a ring over a network 4.0). Bandwidths
     * are nominal: NVLink 450 GB/s, and 400 Gbit/s InfiniBand for each card.
     */
    public static final Cluster H200 = new Cluster(
            8,
            new Link("NVLink", Seconds.us(1.9), Bandwidth.gb(450)),
            new Link("InfiniBand", Seconds.us(8.5), Bandwidth.gb(50)),
            Seconds.us(10));

    /** @throws IllegalArgumentException if a node has no device */
    public Cluster {
        ArgumentCheck.atLeast("perNode", 1, perNode);
    }

    /** How a collective is done. */
    public enum Algorithm {
        /** Round the ring in n−1 steps a pass: every link busy all the time, latency grows with n. */
        RING,
        /**
         * Up and down two trees, half of the data each: latency grows with the logarithm of the nodes. All-reduce only.
         */
        TREE,
        /** Whichever takes less. */
        BEST
    }

    /**
     * Devices that communicate with one another.
     *
     * @param ranks n
     * @param perNode g, of each node
     */
    public record DeviceGroup(int ranks, int perNode) {
        public DeviceGroup {
            ArgumentCheck.atLeast("ranks", 1, ranks);
            ArgumentCheck.atLeast("perNode", 1, perNode);
            perNode = Math.min(perNode, ranks);
        }

        int nodes() {
            return -Math.floorDiv(-ranks, perNode);
        }
    }

    /**
     * The group along one axis of a mesh.
     *
     * @param ranks along the axis
     * @param stride distance of neighbours along the axis in the order of devices: 1 for the innermost axis
     */
    public DeviceGroup group(int ranks, int stride) {
        return new DeviceGroup(ranks, Math.max(1, perNode / Math.max(1, stride)));
    }

    /** How long a collective takes from when all ranks have come; nothing where there is only one rank. */
    public Seconds time(Collective collective, Bytes payload, DeviceGroup group, Algorithm algorithm) {
        if (group.ranks == 1) return Seconds.ZERO;
        Seconds ring = launch.plus(ring(collective, payload, group));
        if (collective != Collective.ALL_REDUCE || algorithm == Algorithm.RING) return ring;
        Seconds tree = launch.plus(tree(payload, group));
        return algorithm == Algorithm.TREE || tree.compareTo(ring) < 0 ? tree : ring;
    }

    /** A step takes as long as the ring's links do on average: while pieces go once around, each passes all of them. */
    private Seconds ring(Collective collective, Bytes payload, DeviceGroup group) {
        int crossings = group.nodes() == 1 ? 0 : group.nodes();
        Seconds round = within.latency()
                .times(group.ranks - crossings)
                .plus(between.latency().times(crossings));
        var allReduce = new RingAllReduce(round.times(1.0 / group.ranks), bandwidth(group));
        return allReduce.time(group.ranks, payload).times(collective.passes() / 2.0);
    }

    /** Up and down: twice the depth in latencies, and every device sends the payload twice. */
    private Seconds tree(Bytes payload, DeviceGroup group) {
        double depth = (group.perNode - 1) * within.latency().value()
                + log2(group.nodes()) * between.latency().value();
        return new Seconds(2 * (depth + payload.over(bandwidth(group)).value()));
    }

    /** Of the narrowest place that a group's data pass, for each device's share. */
    Bandwidth bandwidth(DeviceGroup group) {
        if (group.nodes() == 1) return within.bandwidth();
        Bandwidth adapters = between.bandwidth().times(group.perNode);
        return adapters.compareTo(within.bandwidth()) < 0 ? adapters : within.bandwidth();
    }

    private static int log2(int n) {
        return 32 - Integer.numberOfLeadingZeros(n - 1);
    }
}
