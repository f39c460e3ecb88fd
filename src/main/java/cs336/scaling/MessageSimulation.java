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
 * A simulation of an all-reduce, message by message on every link, to check the closed form of {@link Cluster#time}.
 *
 * @param cluster links and latencies; {@link Cluster#launch} is not simulated
 * @param group the devices
 * @param payload S, the bytes on each rank
 */
public record MessageSimulation(Cluster cluster, DeviceGroup group, Bytes payload) {
    /** @throws IllegalArgumentException if the group has only one device */
    public MessageSimulation {
        ArgumentCheck.atLeast("ranks", 2, group.ranks());
    }

    /**
     * Simulates a ring. Every device sends a chunk of S / n bytes to the next one in each of 2(n−1) steps. In the first
     * half of the steps it sends the sum of its own chunk and the received one; in the second half it forwards the
     * received chunk.
     */
    public Schedule ring() {
        int n = group.ranks();
        var simulation = new Simulation();
        List<Resource> links = links(simulation);
        Bytes chunk = payload.sharedBy(n);
        List<SimulationTask> received = new ArrayList<>();
        for (int step = 0; step < 2 * (n - 1); step++) {
            List<SimulationTask> sent = new ArrayList<>();
            for (int rank = 0; rank < n; rank++) {
                Link link = link(rank, (rank + 1) % n);
                List<SimulationTask> after = step == 0 ? List.of() : List.of(received.get((rank + n - 1) % n));
                sent.add(simulation.task(
                        "step " + step + " of " + rank, links.get(rank), link.holds(chunk), link.ringLatency(), after));
            }
            received = sent;
        }
        return simulation.run();
    }

    /**
     * Simulates two binary trees, each with half of the payload in slices. In the first tree a rank's parent is the
     * rank with the lowest set bit moved up or removed. The second tree mirrors the first, so that for an even number
     * of ranks the inner ranks of one tree are leaves of the other. A slice goes up as soon as it has arrived from both
     * children, and then from the root down.
     *
     * @param slices number of slices of each half; more slices overlap better, and the simulation has no cost per slice
     */
    public Schedule tree(int slices) {
        ArgumentCheck.atLeast("slices", 1, slices);
        int n = group.ranks();
        var simulation = new Simulation();
        List<Resource> links = links(simulation);
        Bytes slice = payload.sharedBy(2L * slices);
        for (int s = 0; s < slices; s++) {
            for (boolean mirrored : new boolean[] {false, true}) {
                new Slice(simulation, links, slice, mirrored).send();
            }
        }
        return simulation.run();
    }

    /** The messages of one slice, up one of the trees and down again. */
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
            List<List<SimulationTask>> received = new ArrayList<>(); // by rank: messages that it waits for
            for (int rank = 0; rank < n; rank++) {
                received.add(new ArrayList<>());
            }
            for (int i = n - 1; i > 0; i--) {
                int rank = rootFirst.get(i);
                int parent = parent(rank, n);
                received.get(parent).add(message(rank, parent, received.get(rank)));
            }
            for (int i = 1; i < n; i++) {
                int rank = rootFirst.get(i);
                int parent = parent(rank, n);
                received.set(rank, List.of(message(parent, rank, received.get(parent))));
            }
        }

        private SimulationTask message(int from, int to, List<SimulationTask> after) {
            int sender = mirrored ? n - 1 - from : from;
            int receiver = mirrored ? n - 1 - to : to;
            Link link = link(sender, receiver);
            String name = sender + " to " + receiver;
            return simulation.task(name, links.get(sender), link.holds(bytes), link.treeLatency(), after);
        }
    }

    /** Returns the rank with its lowest set bit moved up by one or, if there is no such rank, removed. */
    private static int parent(int rank, int ranks) {
        int bit = Integer.lowestOneBit(rank);
        int moved = (rank ^ bit) | bit << 1;
        return moved < ranks ? moved : rank ^ bit;
    }

    private static int depth(int rank, int ranks) {
        int depth = 0;
        for (int at = rank; at != 0; at = parent(at, ranks)) {
            depth++;
        }
        return depth;
    }

    private List<Resource> links(Simulation simulation) {
        return IntStream.range(0, group.ranks())
                .mapToObj(rank -> simulation.link(String.valueOf(rank)))
                .toList();
    }

    /** Returns a link; between nodes it has the bandwidth of all adapters of the group in a node. */
    private Link link(int from, int to) {
        if (from / group.perNode() == to / group.perNode()) {
            return cluster.within();
        }
        return cluster.between().withBandwidth(cluster.between().bandwidth().times(group.perNode()));
    }
}
