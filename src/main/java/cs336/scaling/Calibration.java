package cs336.scaling;

import cs336.basics.TransformerConfig;
import cs336.scaling.Cluster.Group;
import cs336.torch.DType;
import java.util.List;
import java.util.Map;

/**
 * A cluster and the overheads of a step, fitted to what was measured with few devices of one node, so that steps of more can be predicted.
 *
 * <p>Each number is fitted to one kind of measurement, in this order:
 *
 * <ol>
 *   <li>bandwidth of the link in a node, and what a collective takes beside its messages: to all-reduces of many sizes;
 *   <li>{@link Overheads#eachCollective}: to the step that sends each gradient by itself after the backward pass;
 *   <li>{@link Overheads#copy}: to the step that copies all gradients into one buffer;
 *   <li>{@link Overheads#slowdown}: to one step that overlaps.
 * </ol>
 *
 * What would come out negative becomes nothing.
 *
 * @param model work of a device
 * @param cluster with the fitted link
 * @param overheads fitted
 * @param sent bytes of a number that is sent
 */
public record Calibration(StepModel model, Cluster cluster, Overheads overheads, int sent) {
    private static final int HALVINGS = 50;

    /**
     * Steps of a data-parallel model on the devices of one node.
     *
     * @param config the model
     * @param dtype of its gradients
     * @param processes devices
     * @param forward phases of a step that sends nothing
     * @param backward likewise
     * @param optimizer likewise
     * @param alone that step as a whole
     * @param under steps as a whole, by how gradients are summed
     */
    public record Steps(
            TransformerConfig config,
            DType dtype,
            int processes,
            Seconds forward,
            Seconds backward,
            Seconds optimizer,
            Seconds alone,
            Map<Synchronization, Seconds> under) {
        public Steps {
            under = Map.copyOf(under);
        }

        Seconds measured(Synchronization synchronization) {
            Seconds seconds = under.get(synchronization);
            if (seconds == null) {
                throw new IllegalArgumentException(
                        "under must hold " + synchronization + ", not only " + under.keySet());
            }
            return seconds;
        }
    }

    /**
     * Fits everything.
     *
     * @param nominal latencies and the links between nodes, which are kept
     * @param allReduces measured on devices of one node
     * @param steps measured on one node
     * @param overlapping what the slowdown is fitted to
     * @throws IllegalArgumentException where a step that is needed was not measured, or times do not follow latency and bandwidth
     */
    public static Calibration fit(
            Cluster nominal, List<RingAllReduce.Measured> allReduces, Steps steps, Synchronization overlapping) {
        Seconds phases = steps.forward.plus(steps.backward).plus(steps.optimizer);
        double whole = steps.alone.value() / phases.value(); // what lies between phases is spread over them
        var model = StepModel.of(
                steps.config, steps.forward.times(whole), steps.backward.times(whole), steps.optimizer.times(whole));
        var fitted = new Calibration(model, network(nominal, allReduces), Overheads.NONE, steps.dtype.bytes());
        return fitted.withEachCollective(steps).withCopy(steps).withSlowdown(steps, overlapping);
    }

    /**
     * The link in a node, and what a collective takes beside its messages, that fit measured all-reduces best. Latencies of hops stay.
     *
     * @param nominal latencies and the links between nodes, which are kept
     * @param allReduces measured on devices of one node, of several sizes; any numbers of them
     * @throws IllegalArgumentException if times do not follow latency and bandwidth
     */
    public static Cluster network(Cluster nominal, List<RingAllReduce.Measured> allReduces) {
        Seconds hop = nominal.within().latency();
        // Without its hops, and with the bytes that a device sends, each is as one of two devices.
        List<RingAllReduce.Measured> ofTwo = allReduces.stream()
                .map(m -> new RingAllReduce.Measured(
                        2,
                        m.payload().times(RingAllReduce.sent(m.ranks())),
                        new Seconds(m.time().value()
                                - hop.times(RingAllReduce.steps(m.ranks())).value())))
                .toList();
        RingAllReduce fit = RingAllReduce.fit(ofTwo);
        Link within = nominal.within().withBandwidth(fit.beta());
        return new Cluster(
                nominal.perNode(), within, nominal.between(), fit.alpha().times(RingAllReduce.steps(2)));
    }

    private Calibration withEachCollective(Steps steps) {
        double beyond =
                beyondPrediction(Synchronization.each(), steps) / model.layers().size();
        return with(new Overheads(new Seconds(Math.max(0, beyond)), overheads.copy(), overheads.slowdown()));
    }

    private Calibration withCopy(Steps steps) {
        double beyond = beyondPrediction(Synchronization.flat(), steps);
        double copied = 2.0 * model.parameters() * sent;
        var copy = new Bandwidth(beyond > 0 ? copied / beyond : Double.POSITIVE_INFINITY);
        return with(new Overheads(overheads.eachCollective(), copy, overheads.slowdown()));
    }

    /** More slowdown makes a step longer, so that halving finds it. */
    private Calibration withSlowdown(Steps steps, Synchronization overlapping) {
        double low = 0;
        double high = 0.99;
        for (int i = 0; i < HALVINGS; i++) {
            double middle = (low + high) / 2;
            if (with(middle).beyondPrediction(overlapping, steps) > 0) low = middle;
            else high = middle;
        }
        return with(low);
    }

    private double beyondPrediction(Synchronization synchronization, Steps steps) {
        return steps.measured(synchronization).value()
                - dataParallel(synchronization, steps.processes).time().value();
    }

    private Calibration with(double slowdown) {
        return with(new Overheads(overheads.eachCollective(), overheads.copy(), slowdown));
    }

    private Calibration with(Overheads other) {
        return new Calibration(model, cluster, other, sent);
    }

    /** A step of so many replicas with the same work each. */
    public SimulatedStep dataParallel(Synchronization synchronization, int processes) {
        return step(Mesh.single().withData(processes), synchronization, new Tokens(0));
    }

    /**
     * A step on a mesh with the same work for each device, weights gathered one block ahead.
     *
     * @param tokens of a group that takes sequences of its own; only tensor parallelism asks for it
     */
    public SimulatedStep step(Mesh mesh, Synchronization synchronization, Tokens tokens) {
        return new SimulatedStep(model, cluster, mesh, sent, tokens, synchronization, 1, overheads);
    }

    /** How long an all-reduce takes among so many devices. */
    public Seconds allReduce(Bytes payload, int ranks) {
        Group group = cluster.group(ranks, 1);
        return cluster.time(Collective.ALL_REDUCE, payload, group, Cluster.Algorithm.BEST);
    }
}
