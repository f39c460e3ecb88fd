package cs336.scaling;

import cs336.bench.ArgumentCheck;
import cs336.scaling.Cluster.Algorithm;
import cs336.scaling.Cluster.DeviceGroup;
import cs336.scaling.Simulation.Resource;
import cs336.scaling.Simulation.SimulationTask;
import cs336.scaling.StepModel.StepLayer;
import cs336.torch.DType;
import cs336.units.Bytes;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;

/**
 * A simulation of one training step on a mesh. All devices do the same at the same time, so only one is simulated. It
 * has one stream for computation, one for the collectives of data parallelism and one for those of tensor parallelism.
 * The axes of the mesh determine the collectives:
 *
 * <ul>
 *   <li>Replicas: gradients are all-reduced as {@link Synchronization} says.
 *   <li>Sharded optimizer state or also gradients (ZeRO-1 and 2): gradients are reduce-scattered in the same buckets,
 *       each device updates its shard, and then the weights are all-gathered.
 *   <li>FSDP: the weights of a block are all-gathered before its forward pass and again before its backward pass,
 *       {@code prefetch} blocks ahead. Its gradients are reduce-scattered after its backward pass.
 *   <li>Replicas of shards (HSDP): the reduced shards are all-reduced among the replicas.
 *   <li>Tensor parallelism: each device computes with its shard of the matrices of each block. The activations are
 *       all-gathered before and reduce-scattered after each pair of matrices, without overlap. The backward pass has
 *       two all-gathers per pair.
 * </ul>
 *
 * <p>The simulation omits stragglers, links shared with other jobs, launch overhead except {@link Overheads#start}, and
 * the lower efficiency of small matmuls.
 *
 * @param model compute times of one device
 * @param cluster nodes and links; neighbours form a tensor-parallel group, then shards, then replicas
 * @param mesh axes of parallelism; pipelines are not supported
 * @param sent type of the elements that are sent
 * @param tokens tokens of each data-parallel rank, needed for tensor parallelism only
 * @param synchronization schedule of the gradient synchronization
 * @param prefetch number of blocks whose weights are gathered ahead; with 0 a gather starts after the block before it
 * @param overheads costs of communication in addition to the collectives
 */
public record SimulatedStep(
        StepModel model,
        Cluster cluster,
        Mesh mesh,
        DType sent,
        Tokens tokens,
        Synchronization synchronization,
        int prefetch,
        Overheads overheads) {
    /** Name of the stream with the computation. */
    public static final String COMPUTE = "compute";

    /** Name of the stream with the collectives of data parallelism. */
    public static final String COMMUNICATION = "communication";

    /** Name of the stream with the collectives of tensor parallelism. */
    public static final String TENSOR = "tensor";

    /** @throws IllegalArgumentException if the mesh has a pipeline, or {@code prefetch} is below 0 */
    public SimulatedStep {
        if (mesh.pipeline() != 1) {
            throw new IllegalArgumentException(
                    "pipeline must be 1, not " + mesh.pipeline() + ": pipelines are not simulated");
        }
        ArgumentCheck.atLeast("prefetch", 0, prefetch);
    }

    /** Runs the simulation. */
    public Schedule run() {
        return new Run().schedule();
    }

    /** Returns the time of the step. */
    public Seconds time() {
        return run().finish();
    }

    /** Returns exposed communication: the difference between the step and its computation. */
    public Seconds exposed() {
        double computation = model.passes().plus(update()).value();
        return new Seconds(Math.max(0, time().value() - computation));
    }

    /** Returns the time in which the optimizer updates the shard of one device. */
    private Seconds update() {
        return model.optimizer().times(1.0 / ((long) mesh.shards() * mesh.tensor()));
    }

    /** The tasks of one step. */
    private final class Run {
        private final Simulation simulation = new Simulation();
        private final Resource communication = simulation.stream(COMMUNICATION);
        private final Resource tensor = simulation.stream(TENSOR);
        private final Resource compute = simulation.stream(COMPUTE).slowedBy(communication, overheads.slowdown());
        private final DeviceGroup shards = cluster.group(mesh.shards(), mesh.tensor());
        private final DeviceGroup replicas = cluster.group(mesh.data(), mesh.tensor() * mesh.shards());
        private final DeviceGroup tensorGroup = cluster.group(mesh.tensor(), 1);
        private final boolean gathers = mesh.shards() > 1 && mesh.stage().splitsWeights();

        Schedule schedule() {
            List<SimulationTask> reduced = gathers ? blockByBlock() : replicated();
            SimulationTask update =
                    simulation.task("optimizer", compute, update(), reduced.toArray(SimulationTask[]::new));
            if (mesh.shards() > 1 && !gathers) {
                collective("weights", Collective.ALL_GATHER, bytes(model.parameters()), shards, List.of(update));
            }
            return simulation.run();
        }

        // ---- weights on every device ----

        private List<SimulationTask> replicated() {
            for (List<StepLayer> block : blocks()) {
                tensorBefore(block, "forward", 1);
                for (StepLayer layer : block) {
                    simulation.task("forward " + layer.name(), compute, layer.forward());
                }
                tensorAfter(block, "forward");
            }
            boolean overlaps = mesh.batchShards() > 1 && synchronization instanceof Synchronization.Buckets;
            Iterator<Long> completed =
                    overlaps ? completedBuckets(((Synchronization.Buckets) synchronization).most()) : null;
            List<SimulationTask> reduced = new ArrayList<>();
            SimulationTask last = null;
            List<List<StepLayer>> blocks = blocks();
            for (int b = blocks.size() - 1; b >= 0; b--) {
                List<StepLayer> block = blocks.get(b);
                tensorBefore(block, "backward", 2);
                for (int i = block.size() - 1; i >= 0; i--) {
                    last = simulation.task(
                            "backward " + block.get(i).name(),
                            compute,
                            block.get(i).backward());
                    long bucket = overlaps ? completed.next() : 0;
                    if (bucket > 0) {
                        reduced.add(sendDuringBackward("bucket " + reduced.size(), bucket, last));
                    }
                }
                tensorAfter(block, "backward");
            }
            if (mesh.batchShards() == 1) {
                return List.of(last);
            }
            return overlaps ? reduced : afterBackward(last);
        }

        private List<SimulationTask> afterBackward(SimulationTask last) {
            if (synchronization instanceof Synchronization.FlatAfterBackward) {
                SimulationTask copied = simulation.task("copy", compute, copy(model.parameters()), last);
                return List.of(reduce("all gradients", model.parameters(), List.of(copied)));
            }
            List<SimulationTask> reduced = new ArrayList<>();
            for (StepLayer layer : lastFirst()) {
                reduced.add(reduce(layer.name(), layer.parameters(), List.of(last)));
            }
            return reduced;
        }

        /**
         * Returns for each layer, from the last to the first, the size in parameters of the bucket that it completes; 0
         * if it completes none.
         */
        private Iterator<Long> completedBuckets(Bytes most) {
            List<Long> completed = new ArrayList<>();
            List<StepLayer> layers = lastFirst();
            long parameters = 0;
            for (int i = 0; i < layers.size(); i++) {
                parameters += layers.get(i).parameters();
                boolean full = i == layers.size() - 1
                        || bytes(parameters + layers.get(i + 1).parameters()).compareTo(most) > 0;
                completed.add(full ? parameters : 0);
                if (full) {
                    parameters = 0;
                }
            }
            return completed.iterator();
        }

        /**
         * Sends a bucket during the backward pass. This delays the computation by the start of the collective and,
         * unless gradients are sent individually, by the copy into the bucket.
         */
        private SimulationTask sendDuringBackward(String bucket, long parameters, SimulationTask ready) {
            boolean single = ((Synchronization.Buckets) synchronization).most().equals(Bytes.NONE);
            Seconds delay = overheads.start().plus(single ? Seconds.ZERO : copy(parameters));
            SimulationTask started =
                    delay.equals(Seconds.ZERO) ? ready : simulation.task("start " + bucket, compute, delay);
            return reduce(bucket, parameters, List.of(started));
        }

        private Seconds copy(long parameters) {
            return bytes(parameters).over(overheads.copy());
        }

        private List<StepLayer> lastFirst() {
            List<StepLayer> layers = new ArrayList<>(model.layers());
            Collections.reverse(layers);
            return layers;
        }

        /** Reduces gradients: reduce-scatter among shards, then all-reduce among replicas. */
        private SimulationTask reduce(String what, long parameters, Collection<SimulationTask> after) {
            Bytes payload = bytes(parameters);
            if (mesh.shards() == 1) {
                return collective(what, Collective.ALL_REDUCE, payload, replicas, after);
            }
            SimulationTask scattered = collective(what, Collective.REDUCE_SCATTER, payload, shards, after);
            if (mesh.data() == 1) {
                return scattered;
            }
            Bytes shard = payload.sharedBy(mesh.shards());
            return collective(what, Collective.ALL_REDUCE, shard, replicas, List.of(scattered));
        }

        // ---- weights gathered block by block ----

        private List<SimulationTask> blockByBlock() {
            List<List<StepLayer>> blocks = blocks();
            int n = blocks.size();
            SimulationTask[] computed = new SimulationTask[2 * n]; // forward in order, then backward in reverse
            SimulationTask[] gathered = new SimulationTask[2 * n];
            List<SimulationTask> reduced = new ArrayList<>();
            int next = 0;
            for (int i = 0; i < 2 * n; i++) {
                for (; next < 2 * n && next <= i + prefetch; next++) {
                    List<SimulationTask> after =
                            next - prefetch - 1 < 0 ? List.of() : List.of(computed[next - prefetch - 1]);
                    List<StepLayer> block = blocks.get(next < n ? next : 2 * n - 1 - next);
                    gathered[next] =
                            collective("weights", Collective.ALL_GATHER, bytes(parameters(block)), shards, after);
                }
                boolean forward = i < n;
                List<StepLayer> block = blocks.get(forward ? i : 2 * n - 1 - i);
                computed[i] = computeBlock(block, forward, gathered[i]);
                if (!forward) {
                    reduced.add(reduce("gradients", parameters(block), List.of(computed[i])));
                }
            }
            return reduced;
        }

        private SimulationTask computeBlock(List<StepLayer> block, boolean forward, SimulationTask gathered) {
            String pass = forward ? "forward" : "backward";
            tensorBefore(block, pass, forward ? 1 : 2);
            double work = block.stream()
                    .mapToDouble(layer -> (forward ? layer.forward() : layer.backward()).value())
                    .sum();
            String name = pass + " " + block.get(0).block();
            SimulationTask computed = simulation.task(name, compute, new Seconds(work), gathered);
            tensorAfter(block, pass);
            return computed;
        }

        // ---- tensor parallelism, on the critical path ----

        private void tensorBefore(List<StepLayer> block, String pass, int gathers) {
            addExposed(block, pass + ": gather activations", Collective.ALL_GATHER, gathers);
        }

        private void tensorAfter(List<StepLayer> block, String pass) {
            addExposed(block, pass + ": scatter activations", Collective.REDUCE_SCATTER, 1);
        }

        /** Adds collectives that do not overlap with computation. */
        private void addExposed(List<StepLayer> block, String what, Collective how, int times) {
            if (mesh.tensor() == 1 || !block.get(0).inBlock()) {
                return;
            }
            Bytes stream = Bytes.of(Math.multiplyExact(tokens.count(), (long) model.dModel()), sent.bytes());
            Seconds one = cluster.time(how, stream, tensorGroup, Algorithm.BEST);
            SimulationTask reached = simulation.task("reached", compute, Seconds.ZERO);
            SimulationTask moved = simulation.task(what, tensor, one.times((double) times * model.pairs()), reached);
            simulation.task("moved", compute, Seconds.ZERO, moved);
        }

        // ---- common ----

        private SimulationTask collective(
                String what, Collective how, Bytes payload, DeviceGroup group, Collection<SimulationTask> after) {
            Seconds time = cluster.time(how, payload, group, Algorithm.BEST).plus(overheads.eachCollective());
            return simulation.task(how + " " + what, communication, time, Seconds.ZERO, after);
        }

        /** Returns the bytes of some parameters on one device of a tensor-parallel group. */
        private Bytes bytes(long parameters) {
            return Bytes.of(parameters, sent.bytes()).sharedBy(mesh.tensor());
        }

        private List<List<StepLayer>> blocks() {
            List<List<StepLayer>> blocks = new ArrayList<>();
            for (StepLayer layer : model.layers()) {
                List<StepLayer> last = blocks.isEmpty() ? null : blocks.get(blocks.size() - 1);
                if (last == null || last.get(0).block() != layer.block()) {
                    blocks.add(last = new ArrayList<>());
                }
                last.add(layer);
            }
            return blocks;
        }

        private static long parameters(List<StepLayer> block) {
            return block.stream().mapToLong(StepLayer::parameters).sum();
        }
    }
}
