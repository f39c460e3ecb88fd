package cs336.distributed.bench;

import cs336.basics.Batches;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.Splits;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.RankProgram;
import cs336.profile.memory.MemoryProfile;
import cs336.profile.memory.MemoryRecord;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import cs336.torch.Torch;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * A benchmark of sharded parameters: memory, time and communication volume of data-parallel training of a Transformer
 * language model in each {@link FsdpMode}. Each rank has its own batch.
 *
 * <p><b>Memory</b> of the second step, one value per rank: {@code init}, when model, container and optimizer exist;
 * {@code before-step}, directly before the optimizer's step; {@code peak}, the most of the whole step.
 *
 * <p><b>Results</b> of the first three steps from the same parameters and batches: {@code loss-1} to {@code loss-3},
 * one value per rank, and {@code gradient-norm-1} to {@code gradient-norm-3}, the norm of the averaged gradients.
 *
 * <p><b>Time.</b> The cases are interleaved over several rounds, see {@link TrainingPlan}. Steps run back to back. Each
 * value is that of the slowest rank in that step: {@code forward}, {@code backward}, {@code gradients} (from the end of
 * the backward pass until the gradients are averaged), {@code update} (the optimizer's step), and {@code total}, their
 * sum.
 *
 * <p><b>Traces.</b> On request {@link StepTraces} records further steps of each case.
 *
 * <p><b>Communication</b> per step: the metrics of {@link CommunicationVolume}.
 */
public final class FsdpBenchmark implements RankProgram<TracedPlan, StoredResult> {
    private static final List<String> PHASES = List.of(
            DataParallelTraining.FORWARD,
            DataParallelTraining.BACKWARD,
            DataParallelTraining.GRADIENTS,
            DataParallelTraining.UPDATE);
    private static final String INITIALIZATION = "initialization";
    /**
     * The learning rate of the first steps. AdamW's first update has the size of the learning rate for each element,
     * even if its gradient is a rounding error. With a small rate the losses of different implementations stay
     * comparable.
     */
    private static final double FIRST_LEARNING_RATE = 1e-5;

    private static final Metric INIT = Metric.bytes("init");
    private static final Metric BEFORE_STEP = Metric.bytes("before-step");
    private static final Metric PEAK = Metric.bytes("peak");
    private static final Metric TOTAL = Metric.ms("total");
    private static final List<Metric> LOSSES = firstSteps("loss", "nats");
    private static final List<Metric> GRADIENT_NORMS = firstSteps("gradient-norm", "");

    private static List<Metric> firstSteps(String name, String unit) {
        return IntStream.rangeClosed(1, 3)
                .mapToObj(step -> new Metric(name + "-" + step, unit))
                .toList();
    }

    /** Returns the case of a training setup, whose mode is an {@link FsdpMode}. */
    public static Case caseOf(RankCase c) {
        return c.toCase(INIT, BEFORE_STEP, PEAK, TOTAL, CommunicationVolume.HANDED, CommunicationVolume.LEAST_SENT)
                .with(RankCase.CHECKPOINTING, c.model().config().checkpointing())
                .with(RankCase.LOSS_ROWS, c.lossRows())
                .yields(LOSSES.toArray(Metric[]::new))
                .yields(GRADIENT_NORMS.toArray(Metric[]::new))
                .yields(PHASES.stream().map(Metric::ms).toArray(Metric[]::new));
    }

    @Override
    public StoredResult run(ProcessGroup group, TracedPlan plan) throws IOException {
        TrainingPlan training = plan.training();
        MeasurementStore store = MeasurementStore.of(training.storage(), group.device(), group.size());
        List<Case> missing = store.lacking(group, training.cases());
        StepTraces traces = StepTraces.open(group, plan);
        Torch.allowTf32(false);
        var collected = new ArrayList<SampleCollector>();
        MeasurementStore.measureEach(group, "memory", missing, i -> {
            var samples = new SampleCollector();
            measureFirstSteps(group, RankCase.of(missing.get(i)), samples);
            collected.add(samples);
            store.put(group, missing.get(i), samples, false);
        });
        store.measureRounds(group, training.rounds(), missing, (i, isLast) -> {
            train(group, training, RankCase.of(missing.get(i)), collected.get(i));
            store.put(group, missing.get(i), collected.get(i), isLast);
        });
        List<Case> traced = traces.missing();
        MeasurementStore.measureEach(group, "traces", traced, i -> trace(group, traced.get(i), traces));
        return new StoredResult(store.path().toString(), missing.size());
    }

    private static void trace(ProcessGroup group, Case c, StepTraces traces) throws IOException {
        Torch.seed(group.rank());
        try (var scope = MemoryScope.open();
                var training = DataParallelTraining.of(RankCase.of(c), group)) {
            Batches.Batch batch = RankCase.of(c).batch(group);
            traces.record(c, () -> {
                group.device().synchronize();
                step(training, batch, () -> {});
                group.device().synchronize();
            });
        }
    }

    /**
     * Trains three steps, and measures the memory of the second one. The first one allocates memory that stays
     * allocated, such as moments and workspaces of libraries.
     */
    private static void measureFirstSteps(ProcessGroup group, RankCase c, SampleCollector samples) {
        Torch.seed(group.rank());
        try (var profile = MemoryProfile.start(group.device());
                var scope = MemoryScope.open()) {
            DataParallelTraining training;
            try (var phase = ProfilerRange.of(INITIALIZATION)) {
                training = DataParallelTraining.of(c, group);
            }
            try (training) {
                Batches.Batch batch = c.batch(group);
                training.optimizer().setLearningRate(FIRST_LEARNING_RATE);
                for (int step = 0; step < LOSSES.size(); step++) {
                    firstStep(group, training, batch, LOSSES.get(step), GRADIENT_NORMS.get(step), samples);
                }
                MemoryRecord record = profile.stop();
                int beforeStep = record.phase(DataParallelTraining.UPDATE, 1).from();
                int begin = record.phase(DataParallelTraining.FORWARD, 1).from();
                int end = record.phase(DataParallelTraining.UPDATE, 1).until();
                int init = record.phase(INITIALIZATION, 0).until();
                addPerRank(group, samples, INIT, record.bytes(init - 1));
                addPerRank(group, samples, BEFORE_STEP, record.bytes(beforeStep - 1));
                addPerRank(group, samples, PEAK, record.bytes(record.peakEvent(begin, end)));
            }
        }
    }

    private static void step(DataParallelTraining training, Batches.Batch batch, Runnable endOfPhase) {
        try (var scope = MemoryScope.open()) {
            training.step(batch, endOfPhase);
        }
    }

    private static void firstStep(
            ProcessGroup group,
            DataParallelTraining training,
            Batches.Batch batch,
            Metric loss,
            Metric gradientNorm,
            SampleCollector samples) {
        try (var scope = MemoryScope.open()) {
            addPerRank(group, samples, loss, training.backward(batch, () -> {}).item_double());
            samples.add(gradientNorm, training.gradientNorm().item_double());
        }
        training.update();
    }

    private static void addPerRank(ProcessGroup group, SampleCollector samples, Metric metric, double value) {
        group.allGather(value).forEach(each -> samples.add(metric, each));
    }

    private static void train(ProcessGroup group, TrainingPlan plan, RankCase c, SampleCollector samples)
            throws IOException {
        Torch.seed(group.rank());
        try (var scope = MemoryScope.open();
                var training = DataParallelTraining.of(c, group);
                var splits = new Splits(group.device(), 1 + PHASES.size() * plan.steps())) {
            Batches.Batch batch = c.batch(group);
            for (int i = 0; i < plan.warmup(); i++) {
                step(training, batch, () -> {});
            }
            CommunicationVolume volume = CommunicationVolume.start(group);
            splits.start();
            for (int i = 0; i < plan.steps(); i++) {
                step(training, batch, splits::mark);
            }
            double[] times = splits.ms();
            volume.stop();

            addTimes(samples, group.max(times));
            volume.addTo(samples, plan.steps());
        }
    }

    private static void addTimes(SampleCollector samples, double[] phases) {
        for (int from = 0; from < phases.length; from += PHASES.size()) {
            samples.add(TOTAL, Arrays.stream(phases, from, from + PHASES.size()).sum());
            for (int k = 0; k < PHASES.size(); k++) {
                samples.add(Metric.ms(PHASES.get(k)), phases[from + k]);
            }
        }
    }
}
