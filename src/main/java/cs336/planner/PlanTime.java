package cs336.planner;

import cs336.bench.Pass;
import cs336.bench.Project;
import cs336.distributed.bench.FsdpMode;
import cs336.numbers.Header;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.planner.MeasuredCosts.PassCosts;
import cs336.scaling.Calibration;
import cs336.scaling.Mesh;
import cs336.scaling.ScaleOutStudy;
import cs336.scaling.SimulatedStep;
import cs336.scaling.StepModel;
import cs336.scaling.Synchronization;
import cs336.scaling.ZeroStage;
import cs336.torch.DType;
import cs336.units.Bytes;
import cs336.units.Seconds;
import cs336.units.Tokens;
import cs336.units.UnitFactors;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import tech.tablesaw.api.Table;

/**
 * The predicted time of a {@link StepPlan} on H200 or H100 GPUs. Times of kernels are fitted to stored profiles of one
 * H200 ({@link MeasuredCosts}). On an H100, memory-bound kernels and the optimizer take longer by the ratio of the
 * memory bandwidths; GEMMs and attention are assumed to take as long as on an H200. A {@link SimulatedStep} predicts
 * exposed communication. {@link ScaleOutStudy} fits its links and overheads to all-reduces and to the data-parallel
 * steps of the xl model on two GPUs.
 *
 * <p>The kernels of a step and their launch overlap, so the step takes as long as the longer of both. Launch overhead
 * is the launch time in excess of the kernel time. It is predicted for eager execution (one kernel per operator), with
 * plain RMSNorm and plain attention, and so is an upper bound for other models.
 *
 * @param plan the planned step
 * @param parts the parts of the time, whose sum is the time of the step
 */
public record PlanTime(StepPlan plan, Map<TimePart, Seconds> parts) {
    private static final String COMMUNICATION = "data/measurements/h200-x4";
    private static final String FITTED_MODEL = "xl";
    private static Calibration calibration; // null until it is needed

    /** A part of the time of a step. */
    public enum TimePart {
        /** Matrix multiplications outside of attention. */
        GEMMS("GEMMs"),
        /** Attention from scores to outputs, with its softmax. */
        ATTENTION("attention"),
        /** Normalization, activation functions, residual connections, casts, copies and the loss. */
        MEMORY_BOUND("memory-bound kernels"),
        OPTIMIZER("optimizer"),
        /** Time in which the GPU waits for the host to launch kernels. */
        LAUNCH_OVERHEAD("launch overhead"),
        /** Time in which the computation waits for collectives. */
        EXPOSED_COMMUNICATION("exposed communication");

        private final String label;

        TimePart(String label) {
            this.label = label;
        }

        @Override
        public String toString() {
            return label;
        }
    }

    /** Times of the kernels of one pass. */
    private record PassTime(Seconds gemms, Seconds attention, Seconds memoryBound) {
        PassTime plus(PassTime other) {
            return new PassTime(
                    gemms.plus(other.gemms), attention.plus(other.attention), memoryBound.plus(other.memoryBound));
        }

        Seconds sum() {
            return gemms.plus(attention).plus(memoryBound);
        }
    }

    /** Returns the prediction for an H200; see {@link #of(StepPlan, PlanMachine)}. */
    public static PlanTime of(StepPlan plan) throws IOException {
        return of(plan, PlanMachine.H200);
    }

    /** Returns why the time of a plan is not predicted; empty if it is. */
    static Optional<String> unpredictable(StepPlan plan) {
        if (plan.precision().tf32()) {
            return Optional.of("no profile of tf32 is stored");
        }
        return plan.isSharded() && plan.pass() == Pass.FORWARD
                ? Optional.of("the collectives of a forward pass alone are not predicted")
                : Optional.empty();
    }

    /**
     * Returns the prediction for a plan.
     *
     * @throws IllegalArgumentException if the precision is TF32, of which no profile is stored, or the plan is a
     *     forward pass with sharded parameters, whose collectives are not predicted
     * @throws IOException if a file of measurements cannot be read
     * @throws UncheckedIOException if the working folder is not inside the project, which has the measurements
     */
    public static PlanTime of(StepPlan plan, PlanMachine machine) throws IOException {
        MeasuredCosts costs = MeasuredCosts.of(plan.precision());
        unpredictable(plan).ifPresent(reason -> {
            throw new IllegalArgumentException("plan must not be " + plan.title() + ": " + reason);
        });
        StepWork work = StepWork.of(plan);
        double slower = 1 / machine.bandwidthRatio();
        boolean backwards = plan.pass().valuesPerParameter() > 1;
        boolean updates = plan.pass() == Pass.STEP;
        PassTime forward = passTime(plan, costs.forward(), work, 1, 1, slower);
        PassTime recomputed = passTime(plan, costs.forward(), work, work.recomputedGemms(), work.recomputed(), slower);
        PassTime backward = passTime(plan, costs.backward(), work, 1, 1, slower).plus(recomputed);
        PassTime passes = backwards ? forward.plus(backward) : forward;
        double updated = plan.mode() == FsdpMode.DDP ? 1 : 1.0 / plan.gpus();
        Seconds optimizer = updates ? Seconds.ms(costs.optimizerMs() * work.parameters() * slower) : Seconds.ZERO;

        var parts = new EnumMap<TimePart, Seconds>(TimePart.class);
        parts.put(TimePart.GEMMS, passes.gemms);
        parts.put(TimePart.ATTENTION, passes.attention);
        parts.put(TimePart.MEMORY_BOUND, passes.memoryBound);
        parts.put(TimePart.OPTIMIZER, optimizer.times(updated));
        double kernels = parts.values().stream().mapToDouble(Seconds::value).sum();
        Seconds host = costs.host(work, plan.pass());
        double overhead = Math.max(0, host.value() - kernels);
        parts.put(TimePart.LAUNCH_OVERHEAD, new Seconds(overhead));
        Seconds exposed = Seconds.ZERO;
        if (plan.gpus() > 1 && backwards) {
            double stretched = 1 + overhead / passes.sum().value();
            exposed =
                    exposed(plan, forward.sum().times(stretched), backward.sum().times(stretched), optimizer);
        }
        parts.put(TimePart.EXPOSED_COMMUNICATION, exposed);
        return new PlanTime(plan, parts);
    }

    /**
     * Returns the kernel times of a pass that runs repeatedly.
     *
     * @param gemms number of runs of the GEMMs
     * @param others number of runs of the other kernels
     * @param slower factor by which memory-bound kernels take longer than on an H200
     */
    private static PassTime passTime(
            StepPlan plan, PassCosts costs, StepWork work, double gemms, double others, double slower) {
        boolean plain = plan.config().attention().equals("plain");
        Seconds attention = plain
                ? costs.plainAttention().time(work.pairs(), work.rowElements())
                : costs.flashAttention().time(work.pairElements(), work.pairs());
        return new PassTime(
                costs.gemms().time(work.denseFlop(), work.matrixElements()).times(gemms),
                attention.times(others),
                costs.memoryBound()
                        .time(work.activationBytes(), work.parameters())
                        .times(others * slower));
    }

    private static Seconds exposed(StepPlan plan, Seconds forward, Seconds backward, Seconds optimizer)
            throws IOException {
        Calibration fitted = calibration();
        Mesh mesh = switch (plan.mode()) {
            case DDP -> Mesh.single().withData(plan.gpus());
            case ZERO_1 -> Mesh.single().withShards(plan.gpus(), ZeroStage.OPTIMIZER_STATE);
            default -> Mesh.single().withShards(plan.gpus(), ZeroStage.PARAMETERS);
        };
        var model = StepModel.of(plan.config(), forward, backward, optimizer);
        return new SimulatedStep(
                        model,
                        fitted.cluster(),
                        mesh,
                        plan.isSharded() ? plan.precision().compute() : DType.FLOAT32,
                        new Tokens((long) plan.batch() * plan.config().contextLength()),
                        Synchronization.buckets(new Bytes((long) (plan.bucketMb() * UnitFactors.MB))),
                        plan.mode() == FsdpMode.FSDP_WITHOUT_PREFETCH ? 0 : 1,
                        fitted.overheads())
                .exposed();
    }

    /** Returns the links and the overheads of communication, which are fitted once. */
    private static synchronized Calibration calibration() throws IOException {
        if (calibration == null) {
            calibration = StoredRows.use(
                    COMMUNICATION,
                    () -> new ScaleOutStudy(MeasurementQuery.of(Project.path(COMMUNICATION)))
                            .calibration(FITTED_MODEL));
        }
        return calibration;
    }

    /** Returns the predicted time of the step. */
    public Seconds total() {
        return new Seconds(parts.values().stream().mapToDouble(Seconds::value).sum());
    }

    private record PartRow(
            String part,
            @Header("time (ms)") double ms,
            @Header("of the step (%)") double percent) {}

    /** Returns a table with a row for each part that takes time and a last row with the sum. */
    public Table table() {
        List<PartRow> rows = new ArrayList<>();
        parts.forEach((part, time) -> {
            if (time.value() > 0) {
                rows.add(row(part.toString(), time));
            }
        });
        rows.add(row(plan.pass().toString(), total()));
        return Tables.of(PartRow.class, rows).setName("predicted time");
    }

    private PartRow row(String part, Seconds time) {
        return new PartRow(part, time.ms(), 100 * time.value() / total().value());
    }
}
