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
import java.util.Objects;
import org.hipparchus.analysis.MultivariateFunction;
import org.hipparchus.optim.InitialGuess;
import org.hipparchus.optim.MaxEval;
import org.hipparchus.optim.SimpleBounds;
import org.hipparchus.optim.nonlinear.scalar.GoalType;
import org.hipparchus.optim.nonlinear.scalar.ObjectiveFunction;
import org.hipparchus.optim.nonlinear.scalar.noderiv.BOBYQAOptimizer;

/**
 * A cluster and the overheads of a step, fitted to measurements on a few devices of one node, to predict steps on more
 * devices.
 *
 * <p>The fit has two parts:
 *
 * <ol>
 *   <li>The bandwidth of the link in a node and the launch time of a collective are fitted to all-reduces of many
 *       sizes.
 *   <li>All {@link Overheads} are fitted together to the steps that send gradients, by least squares of relative
 *       errors. The step with one collective per gradient determines the fixed cost of each collective. The step with a
 *       flat buffer determines the cost of copying. Steps with many and few buckets determine the costs of overlap.
 * </ol>
 *
 * <p>No fitted number is negative.
 *
 * @param model compute times of one device
 * @param cluster nodes and links, with the fitted bandwidth and launch time
 * @param overheads the fitted overheads
 * @param sent type of the elements that are sent
 */
public record Calibration(StepModel model, Cluster cluster, Overheads overheads, DType sent) {
    private static final double LARGEST_SLOWDOWN = 0.95;
    private static final double FIRST_STEP = 0.1; // initial trust-region radius of the search
    private static final double LAST_STEP = 1e-9;
    private static final int EVALUATIONS = 500;

    /**
     * Measured steps of a data-parallel model on the devices of one node.
     *
     * @param config the model
     * @param dtype type of its gradients
     * @param processes number of devices
     * @param forward time of the forward pass while nothing is sent
     * @param backward time of the backward pass while nothing is sent
     * @param optimizer time of the optimizer while nothing is sent
     * @param alone time of a whole step that sends nothing, including the gaps between its phases
     * @param synchronizedSteps times of whole steps, by gradient synchronization
     */
    public record MeasuredSteps(
            TransformerConfig config,
            DType dtype,
            int processes,
            Seconds forward,
            Seconds backward,
            Seconds optimizer,
            Seconds alone,
            Map<Synchronization, Seconds> synchronizedSteps) {
        public MeasuredSteps {
            synchronizedSteps =
                    Map.copyOf(Objects.requireNonNull(synchronizedSteps, "synchronizedSteps must not be null"));
        }

        /** Returns the synchronizations in a fixed order, so that the rounding of a sum of errors is reproducible. */
        List<Synchronization> synchronizations() {
            boolean enough = synchronizedSteps.containsKey(Synchronization.each())
                    && synchronizedSteps.containsKey(Synchronization.flat())
                    && synchronizedSteps.size() >= 4;
            if (!enough) {
                throw new IllegalArgumentException(
                        "synchronizedSteps must include each(), flat() and two sizes of buckets, not "
                                + synchronizedSteps.keySet());
            }
            return synchronizedSteps.keySet().stream()
                    .sorted(Comparator.comparing(Synchronization::toString))
                    .toList();
        }
    }

    /**
     * Fits the network and the overheads.
     *
     * @param nominal cluster that provides the latencies and the links between nodes
     * @param allReduces all-reduces measured on devices of one node
     * @param steps steps measured on one node
     * @throws IllegalArgumentException if a required step is missing, or the all-reduces do not follow a latency and a
     *     bandwidth
     */
    public static Calibration fit(
            Cluster nominal, List<RingAllReduce.MeasuredAllReduce> allReduces, MeasuredSteps steps) {
        Seconds phases = steps.forward.plus(steps.backward).plus(steps.optimizer);
        double scale = steps.alone.value() / phases.value(); // phases scaled to include the gaps
        var model = StepModel.of(
                steps.config, steps.forward.times(scale), steps.backward.times(scale), steps.optimizer.times(scale));
        var fitted = new Calibration(model, network(nominal, allReduces), Overheads.NONE, steps.dtype);
        return fitted.with(fitted.overheads(steps));
    }

    /**
     * Fits the bandwidth of the link in a node and the launch time of a collective.
     *
     * @param nominal cluster that provides the latencies and the links between nodes
     * @param allReduces all-reduces measured on devices of one node, with several payloads and any numbers of ranks
     * @throws IllegalArgumentException if the times do not follow a latency and a bandwidth
     */
    public static Cluster network(Cluster nominal, List<RingAllReduce.MeasuredAllReduce> allReduces) {
        Seconds hop = nominal.within().ringLatency();
        // Without the latency of its hops, an all-reduce is as fast as one of two ranks that send as many bytes.
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
        List<Synchronization> synchronizations = steps.synchronizations();
        MultivariateFunction squares = at -> {
            Calibration tried = with(overheads(at, steps));
            return synchronizations.stream()
                    .mapToDouble(how -> tried.measuredMinusPredicted(how, steps)
                            / steps.synchronizedSteps.get(how).value())
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

    /**
     * Converts the variables of the search into overheads. The variables are ratios to the step that sends nothing, so
     * that all have the same scale.
     */
    private Overheads overheads(double[] at, MeasuredSteps steps) {
        Seconds unit = steps.alone.times(1.0 / model.layers().size());
        Bandwidth copy = at[1] == 0
                ? Overheads.NONE.copy()
                : Bytes.of(model.parameters(), sent.bytes()).in(steps.alone.times(at[1]));
        return new Overheads(unit.times(at[0]), copy, unit.times(at[2]), at[3]);
    }

    private double measuredMinusPredicted(Synchronization synchronization, MeasuredSteps steps) {
        return steps.synchronizedSteps.get(synchronization).value()
                - dataParallel(synchronization, steps.processes).time().value();
    }

    private Calibration with(Overheads other) {
        return new Calibration(model, cluster, other, sent);
    }

    /** Returns a step of data-parallel training with constant work per replica. */
    public SimulatedStep dataParallel(Synchronization synchronization, int processes) {
        return step(Mesh.single().withData(processes), synchronization, new Tokens(0));
    }

    /**
     * Returns a step on a mesh with constant work per device and weights gathered one block ahead.
     *
     * @param tokens tokens of each data-parallel rank, needed for tensor parallelism only
     */
    public SimulatedStep step(Mesh mesh, Synchronization synchronization, Tokens tokens) {
        return new SimulatedStep(model, cluster, mesh, sent, tokens, synchronization, 1, overheads);
    }

    /** Returns the time to copy all gradients into the buffers in which they are sent. */
    public Seconds copying() {
        return Bytes.of(model.parameters(), sent.bytes()).over(overheads.copy());
    }
}
