package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.scaling.Cluster.DeviceGroup;
import cs336.scaling.Simulation.Resource;
import cs336.scaling.Simulation.SimulationTask;
import cs336.units.Bytes;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;

/**
 * An all-reduce message by message, every device and every link of it. {@link Cluster#time} says in closed form what
 * comes out; this says whether that is right, for as many devices as one can wait for.
 *
 * @param cluster links and latencies; {@link Cluster#launch} does not count here
 * @param group the devices
 * @param payload S
 */
public record MessageSimulation(Cluster cluster, DeviceGroup group, Bytes payload) {
    /** @throws IllegalArgumentException if there is only one device */
    public MessageSimulation {
        ArgumentCheck.atLeast("ranks", 2, group.ranks());
    }

    /**
     * Every device sends one n-th of the payload to the next one, 2(n−1) times, and each time what it has just
     * received: in the first half it adds its own part to it, in the second half it passes it on.
     */
    public Schedule ring() {
        int n = group.ranks();
        var simulation = new Simulation();
        List<Resource> links = links(simulation);
        Bytes part = payload.sharedBy(n);
        List<SimulationTask> received = new ArrayList<>();
        for (int step = 0; step < 2 * (n - 1); step++) {
            List<SimulationTask> sent = new ArrayList<>();
            for (int rank = 0; rank < n; rank++) {
                Link link = link(rank, (rank + 1) % n);
                List<SimulationTask> after = step == 0 ? List.of() : List.of(received.get((rank + n - 1) % n));
                sent.add(simulation.task(
                        "step " + step + " of " + rank, links.get(rank), link.holds(part), link.latency(), after));
            }
            received = sent;
        }
        return simulation.run();
    }

    /**
     * Two trees, each with half of the payload in slices. In the first tree, of ranks from 0, a rank's parent has one
     * bit less at the end; the second one is the first in a mirror, so that for an even number of ranks who passes on
     * in one only sends in the other. A slice goes up when those of the children have come, and from the root down
     * again.
     *
     * @param slices of each half: more make waiting for the first one shorter, and cost nothing here
     */
    public Schedule tree(int slices) {
        ArgumentCheck.atLeast("slices", 1, slices);
        int n = group.ranks();
        var simulation = new Simulation();
        List<Resource> links = links(simulation);
        Bytes slice = payload.sharedBy(2L * slices);
        for (int s = 0; s < slices; s++) {
            for (boolean mirrored : new boolean[] {false, true}) new Slice(simulation, links, slice, mirrored).send();
        }
        return simulation.run();
    }

    /** A slice on its way up one of the trees and down again. */
    private final class Slice {
        private final Simulation simulation;
        private final List<Resource> links;
        private final Bytes bytes;
        private final boolean mirrored;
        private final int n = group.ranks();

        Slice(Simulation simulation, List<Resource> links, Bytes bytes, boolean mirrored) {
            this.simulation = simulation;
            this.links = links;
            this.bytes = bytes;
            this.mirrored = mirrored;
        }

        void send() {
            List<Integer> rootFirst = IntStream.range(0, n)
                    .boxed()
                    .sorted(Comparator.comparing(rank -> depth(rank, n)))
                    .toList();
            List<List<SimulationTask>> had =
                    new ArrayList<>(); // by rank: what it must have received before it can send on
            for (int rank = 0; rank < n; rank++) had.add(new ArrayList<>());
            for (int i = n - 1; i > 0; i--) {
                int rank = rootFirst.get(i);
                int parent = parent(rank, n);
                had.get(parent).add(message(rank, parent, had.get(rank)));
            }
            for (int i = 1; i < n; i++) {
                int rank = rootFirst.get(i);
                int parent = parent(rank, n);
                had.set(rank, List.of(message(parent, rank, had.get(parent))));
            }
        }

        private SimulationTask message(int from, int to, List<SimulationTask> after) {
            int sender = mirrored ? n - 1 - from : from;
            int receiver = mirrored ? n - 1 - to : to;
            Link link = link(sender, receiver);
            String name = sender + " to " + receiver;
            return simulation.task(name, links.get(sender), link.holds(bytes), link.latency(), after);
        }
    }

    /** The parent has the lowest bit of the rank moved one place up, or, where there is no such rank, removed. */
    private static int parent(int rank, int ranks) {
        int bit = Integer.lowestOneBit(rank);
        int moved = (rank ^ bit) | bit << 1;
        return moved < ranks ? moved : rank ^ bit;
    }

    private static int depth(int rank, int ranks) {
        int depth = 0;
        for (int at = rank; at != 0; at = parent(at, ranks)) depth++;
        return depth;
    }

    private List<Resource> links(Simulation simulation) {
        return IntStream.range(0, group.ranks())
                .mapToObj(rank -> simulation.link(String.valueOf(rank)))
                .toList();
    }

    /** Between nodes all adapters of the group's devices in a node serve every ring. */
    private Link link(int from, int to) {
        if (from / group.perNode() == to / group.perNode()) return cluster.within();
        return cluster.between().withBandwidth(cluster.between().bandwidth().times(group.perNode()));
    }
}
