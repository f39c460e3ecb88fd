package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.IntegerMath;
import cs336.units.Seconds;

/**
 * A cluster of nodes with one class of links inside a node and another between nodes, and the time of collectives on
 * it.
 *
 * <p>In a ring each device sends to the next one, and the devices of a node are neighbours. A node has one network
 * adapter per device. A group with g devices per node builds g rings, each through its own adapter, and so has the
 * bandwidth of g adapters between nodes.
 *
 * @param perNode devices per node
 * @param within link between devices of a node
 * @param between link between nodes, per adapter
 * @param launch fixed time of a collective in addition to its messages
 */
public record Cluster(int perNode, Link within, Link between, Seconds launch) {
    /**
     * Nodes of eight NVIDIA H200s. Latencies per hop are those of NCCL's own model (src/graph/tuning.cc, protocol
     * LL128). Bandwidths are nominal: NVLink 450 GB/s, and 400 Gbit/s InfiniBand per GPU.
     */
    public static final Cluster H200 = new Cluster(
            8,
            new Link("NVLink", Seconds.us(1.9), Seconds.us(1.2), Bandwidth.gb(450)),
            new Link("InfiniBand", Seconds.us(4.0), Seconds.us(8.5), Bandwidth.gb(50)),
            Seconds.us(10));

    /** @throws IllegalArgumentException if {@code perNode} is below 1 */
    public Cluster {
        ArgumentCheck.atLeast("perNode", 1, perNode);
    }

    /** The algorithm of a collective. */
    public enum Algorithm {
        /** A ring with n−1 steps per pass: all links are used at once, and the latency grows with n. */
        RING,
        /**
         * Two trees, each for half of the data: the latency grows with the logarithm of the number of nodes. All-reduce
         * only.
         */
        TREE,
        /** The faster of ring and tree. */
        BEST
    }

    /**
     * A group of devices that communicate with one another.
     *
     * @param ranks n, the number of devices
     * @param perNode g, the number of devices in each node
     */
    public record DeviceGroup(int ranks, int perNode) {
        /** @throws IllegalArgumentException if a number is below 1 */
        public DeviceGroup {
            ArgumentCheck.atLeast("ranks", 1, ranks);
            ArgumentCheck.atLeast("perNode", 1, perNode);
            perNode = Math.min(perNode, ranks);
        }

        int nodes() {
            return IntegerMath.ceilDiv(ranks, perNode);
        }
    }

    /**
     * Returns the group along one axis of a mesh.
     *
     * @param ranks number of devices along the axis
     * @param stride difference of the indices of neighbours along the axis: 1 for the innermost axis
     */
    public DeviceGroup group(int ranks, int stride) {
        return new DeviceGroup(ranks, Math.max(1, perNode / Math.max(1, stride)));
    }

    /**
     * Returns the time of a collective from the arrival of the last rank; 0 for one rank. Collectives other than
     * all-reduce always use a ring, also with {@link Algorithm#TREE}.
     *
     * @param payload size of the whole tensor, see {@link Collective}
     */
    public Seconds time(Collective collective, Bytes payload, DeviceGroup group, Algorithm algorithm) {
        if (group.ranks == 1) {
            return Seconds.ZERO;
        }
        Seconds ring = launch.plus(ring(collective, payload, group));
        if (collective != Collective.ALL_REDUCE || algorithm == Algorithm.RING) {
            return ring;
        }
        Seconds tree = launch.plus(tree(payload, group));
        return algorithm == Algorithm.TREE || tree.compareTo(ring) < 0 ? tree : ring;
    }

    /**
     * Returns the time of a ring. A step has the mean latency of the ring's links, because each chunk passes all of
     * them.
     */
    private Seconds ring(Collective collective, Bytes payload, DeviceGroup group) {
        int crossings = group.nodes() == 1 ? 0 : group.nodes();
        Seconds round = within.ringLatency()
                .times(group.ranks - crossings)
                .plus(between.ringLatency().times(crossings));
        var allReduce = new RingAllReduce(round.times(1.0 / group.ranks), bandwidth(group));
        return allReduce.time(group.ranks, payload).times(collective.passes() / 2.0);
    }

    /**
     * Returns the time of an all-reduce in two trees, up and down: twice the latency of the tree's depth, and every
     * device sends the payload twice.
     */
    private Seconds tree(Bytes payload, DeviceGroup group) {
        double depth = (group.perNode - 1) * within.treeLatency().value()
                + log2(group.nodes()) * between.treeLatency().value();
        return new Seconds(2 * (depth + payload.over(bandwidth(group)).value()));
    }

    /** Returns the bandwidth of the bottleneck of a group: NVLink, or all adapters of the group in a node. */
    Bandwidth bandwidth(DeviceGroup group) {
        if (group.nodes() == 1) {
            return within.bandwidth();
        }
        Bandwidth adapters = between.bandwidth().times(group.perNode);
        return adapters.compareTo(within.bandwidth()) < 0 ? adapters : within.bandwidth();
    }

    private static int log2(int n) {
        return 32 - Integer.numberOfLeadingZeros(n - 1);
    }
}
