package cs336.scaling;

import cs336.basics.TransformerConfig;
import cs336.torch.DType;
import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import cs336.units.Tokens;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.hipparchus.analysis.MultivariateFunction;
import org.hipparchus.optim.InitialGuess;
import org.hipparchus.optim.MaxEval;
import org.hipparchus.optim.SimpleBounds;
import org.hipparchus.optim.nonlinear.scalar.GoalType;
import org.hipparchus.optim.nonlinear.scalar.ObjectiveFunction;
import org.hipparchus.optim.nonlinear.scalar.noderiv.BOBYQAOptimizer;

/**
 * A cluster and the overheads of a step, fitted to what was measured with few devices of one node, so that steps of
 * more can be predicted.
 *
 * <p>Each number is fitted to one kind of measurement, in this order:
 *
 * <ol>
 *   <li>bandwidth of the link in a node, and what a collective takes beside its messages: to all-reduces of many sizes;
 *   <li>all of {@link Overheads} together: to all steps that send gradients, by least squares of relative errors. Many
 *       tensors one after the other tell what each collective costs, one buffer what copying does, many and few buckets
 *       what is lost while computing goes on.
 * </ol>
 *
 * Nothing comes out negative.
 *
 * @param model work of a device
 * @param cluster with the fitted link
 * @param overheads fitted
 * @param sent type of the numbers that are sent
 */
public record Calibration(StepModel model, Cluster cluster, Overheads overheads, DType sent) {
    private static final double LARGEST_SLOWDOWN = 0.95;
    private static final double FIRST_STEP = 0.1; // of the search
    private static final double LAST_STEP = 1e-9;
    private static final int EVALUATIONS = 500;

    /**
     * MeasuredSteps of a data-parallel model on the devices of one node.
     *
     * @param config the model
     * @param dtype of its gradients
     * @param processes devices
     * @param forward phases of a step in which nothing is sent meanwhile
     * @param backward likewise
     * @param optimizer likewise
     * @param alone a step that sends nothing at all, with what lies between its phases
     * @param under steps as a whole, by how gradients are summed
     */
    public record MeasuredSteps(
            TransformerConfig config,
            DType dtype,
            int processes,
            Seconds forward,
            Seconds backward,
            Seconds optimizer,
            Seconds alone,
            Map<Synchronization, Seconds> under) {
        public MeasuredSteps {
            under = Map.copyOf(under);
        }

        /** Always in the same order: a sum of errors depends on it in its last digit. */
        List<Synchronization> ways() {
            boolean enough = under.containsKey(Synchronization.each())
                    && under.containsKey(Synchronization.flat())
                    && under.size() >= 4;
            if (!enough) {
                throw new IllegalArgumentException(
                        "under must hold steps that send each gradient, all at once, and two sizes of buckets, not "
                                + under.keySet());
            }
            return under.keySet().stream()
                    .sorted(Comparator.comparing(Synchronization::toString))
                    .toList();
        }
    }

    /**
     * Fits everything.
     *
     * @param nominal latencies and the links between nodes, which are kept
     * @param allReduces measured on devices of one node
     * @param steps measured on one node
     * @throws IllegalArgumentException where a step that is needed was not measured, or times do not follow latency and
     *     bandwidth
     */
    public static Calibration fit(
            Cluster nominal, List<RingAllReduce.MeasuredAllReduce> allReduces, MeasuredSteps steps) {
        Seconds phases = steps.forward.plus(steps.backward).plus(steps.optimizer);
        double whole = steps.alone.value() / phases.value(); // what lies between phases is spread over them
        var model = StepModel.of(
                steps.config, steps.forward.times(whole), steps.backward.times(whole), steps.optimizer.times(whole));
        var fitted = new Calibration(model, network(nominal, allReduces), Overheads.NONE, steps.dtype);
        return fitted.with(fitted.overheads(steps));
    }

    /**
     * The link in a node, and what a collective takes beside its messages, that fit measured all-reduces best.
     * Latencies of hops stay.
     *
     * @param nominal latencies and the links between nodes, which are kept
     * @param allReduces measured on devices of one node, of several sizes; any numbers of them
     * @throws IllegalArgumentException if times do not follow latency and bandwidth
     */
    public static Cluster network(Cluster nominal, List<RingAllReduce.MeasuredAllReduce> allReduces) {
        Seconds hop = nominal.within().latency();
        // Without its hops, and with the bytes that a device sends, each is as one of two devices.
        List<RingAllReduce.MeasuredAllReduce> ofTwo = allReduces.stream()
                .map(m -> new RingAllReduce.MeasuredAllReduce(
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

    private Overheads overheads(MeasuredSteps steps) {
        List<Synchronization> ways = steps.ways();
        MultivariateFunction squares = at -> {
            Calibration tried = with(overheads(at, steps));
            return ways.stream()
                    .mapToDouble(way -> tried.beyondPrediction(way, steps)
                            / steps.under.get(way).value())
                    .map(error -> error * error)
                    .sum();
        };
        double[] first = {FIRST_STEP, FIRST_STEP, FIRST_STEP, FIRST_STEP};
        double[] best = new BOBYQAOptimizer(2 * first.length + 1, FIRST_STEP, LAST_STEP)
                .optimize(
                        new MaxEval(EVALUATIONS),
                        new ObjectiveFunction(squares),
                        GoalType.MINIMIZE,
                        new InitialGuess(first),
                        new SimpleBounds(new double[] {0, 0, 0, 0}, new double[] {1, 1, 1, LARGEST_SLOWDOWN}))
                .getPoint();
        return overheads(best, steps);
    }

    /** All in proportion to the step that sends nothing, so that they are searched for on one scale. */
    private Overheads overheads(double[] at, MeasuredSteps steps) {
        Seconds unit = steps.alone.times(1.0 / model.layers().size());
        Bandwidth copy = at[1] == 0
                ? Overheads.NONE.copy()
                : Bytes.of(model.parameters(), sent.bytes()).in(steps.alone.times(at[1]));
        return new Overheads(unit.times(at[0]), copy, unit.times(at[2]), at[3]);
    }

    private double beyondPrediction(Synchronization synchronization, MeasuredSteps steps) {
        return steps.under.get(synchronization).value()
                - dataParallel(synchronization, steps.processes).time().value();
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

    /** How long it takes to copy all gradients into the buffers in which they are sent. */
    public Seconds copying() {
        return Bytes.of(model.parameters(), sent.bytes()).over(overheads.copy());
    }
}
