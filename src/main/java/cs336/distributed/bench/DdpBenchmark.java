package cs336.distributed.bench;

import cs336.basics.AdamW;
import cs336.basics.Batches;
import cs336.basics.Losses;
import cs336.basics.Optimizer;
import cs336.basics.TransformerLM;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.ModelCases;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.bench.Splits;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.RankProgram;
import cs336.distributed.training.DistributedDataParallel;
import cs336.distributed.training.Strategy;
import cs336.profile.Activity;
import cs336.profile.Breakdown;
import cs336.profile.Overlap;
import cs336.profile.Profile;
import cs336.profile.Profiler;
import cs336.torch.Backward;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import cs336.torch.Torch;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * Times training steps of a Transformer language model on all ranks under several strategies, and without
 * communication.
 *
 * <p>One model is trained under all strategies, a few steps under each, and then again, in turn: what drifts meanwhile
 * drifts for all of them. Each rank has a batch of its own. A step is
 *
 * <ul>
 *   <li>{@code forward}, which ends with the loss;
 *   <li>{@code backward};
 *   <li>{@code communication}: from the end of the backward pass until gradients are averaged. Of gradients that are
 *       sent while the backward pass runs, what is left of it;
 *   <li>{@code optimizer};
 *   <li>{@code total}, by the host's clock, with a wait for the card before and after, and by nothing else;
 *   <li>{@code communication-share} of the four before, in percent.
 * </ul>
 *
 * On CUDA the four are times between events in the stream that computes, by which no one is held up. Of each number the
 * rank where it is largest counts, step by step. {@code messages} is how many all-reduces of gradients a step takes,
 * and {@code gradient-bytes} what they average.
 *
 * <p>Rank 0 stores what there is after each round. Where traces are asked for, three more steps of each case are
 * recorded, and what they show of {@link Overlap} is stored beside, in {@code <problem>_overlap.csv}:
 * {@code communication}, {@code overlapped} and {@code overlap-ratio}, and {@code computation-share} of the step, for
 * each step on the rank that communicated least.
 */
public final class DdpBenchmark implements RankProgram<DdpBenchmark.Plan, DdpBenchmark.Done> {
    /** The mode without communication. */
    public static final String NONE = "none";

    private static final double LEARNING_RATE = 1e-3;
    private static final List<String> PHASES = List.of("forward", "backward", "communication", "optimizer");
    private static final Metric TOTAL = Metric.ms("total");
    private static final Metric SHARE = new Metric("communication-share", "%");
    private static final Metric MESSAGES = new Metric("messages", "");
    private static final Metric GRADIENTS = Metric.bytes("gradient-bytes");
    private static final List<Metric> OVERLAP = List.of(
            Metric.ms("communication"),
            Metric.ms("overlapped"),
            new Metric("overlap-ratio", ""),
            new Metric("computation-share", "%"));
    private static final int TRACED_STEPS = 3;
    private static final double NANOS_PER_MS = 1e6;

    /**
     * What to measure, and where to store it.
     *
     * @param cases of one model and batch, see {@link #of}
     * @param warmup steps before timing begins, of each case in each round
     * @param steps timed steps, of each case in each round
     * @param rounds how often all cases take turns
     * @param traces folder for a trace of each case and rank; null for none
     * @param traced names of the modes to record, as {@code bucketed-25mb}; empty for all
     * @param storage where rank 0 stores what was measured
     */
    public record Plan(
            ArrayList<Case> cases,
            int warmup,
            int steps,
            int rounds,
            String traces,
            ArrayList<String> traced,
            MeasurementFile storage)
            implements Serializable {}

    /**
     * What was done.
     *
     * @param file where measurements are
     * @param measured cases that were measured; the others were stored already
     */
    public record Done(String file, int measured) implements Serializable {}

    /**
     * The case of a model under a strategy.
     *
     * @param mode {@link #NONE} or the name of a {@link Strategy}
     * @param megabytes of a bucket; 0 where there are none
     * @param nodes machines that take part, or pose as such
     * @param round tells rounds apart that are measured in turn with a peer
     */
    public static Case of(
            ModelOptions.Model model,
            Precision precision,
            CollectiveBackend backend,
            int nodes,
            int processes,
            String mode,
            double megabytes,
            int round) {
        Case c = RankCases.of(model, precision, backend, nodes, processes, mode, megabytes, round)
                .yields(TOTAL);
        for (String phase : PHASES) c = c.yields(Metric.ms(phase));
        return c.yields(SHARE, MESSAGES, GRADIENTS);
    }

    @Override
    public Done run(ProcessGroup group, Plan plan) throws IOException {
        MeasurementStore store = MeasurementStore.of(plan.storage, group.device(), group.size());
        MeasurementStore overlaps = MeasurementStore.of(plan.storage.beside("_overlap"), group.device(), group.size());
        List<Case> open = store.lacking(group, plan.cases);
        List<Case> untraced = plan.traces == null
                ? List.of()
                : overlaps
                        .lacking(
                                group,
                                plan.cases.stream().map(DdpBenchmark::overlap).toList())
                        .stream()
                        .filter(c -> !c.text("mode").equals(NONE))
                        .filter(c -> plan.traced.isEmpty() || plan.traced.contains(label(c)))
                        .toList();
        if (open.isEmpty() && untraced.isEmpty()) return new Done(store.path().toString(), 0);
        Case any = plan.cases.get(0);
        Precision precision = Precision.parse(any.text("dtype"));
        Torch.allowTf32(precision.tf32());
        Torch.seed(group.rank());
        try (var model = new TransformerLM(ModelCases.config(any), group.device());
                var optimizer = new AdamW(model.namedParameters(), AdamW.Options.of(LEARNING_RATE));
                var splits = new Splits(group.device(), PHASES.size() + 1);
                var scope = MemoryScope.open()) {
            Batches.Batch batch = Batches.random(
                            model.config().vocabSize(),
                            any.integer("batch"),
                            model.config().contextLength(),
                            group.device(),
                            group.rank())
                    .next();
            var trainer = new Trainer(model, optimizer, precision, batch, splits);
            List<SampleCollector> measured = new ArrayList<>();
            for (int i = 0; i < open.size(); i++) measured.add(new SampleCollector());
            for (int round = 0; round < plan.rounds; round++) {
                for (int i = 0; i < open.size(); i++) {
                    try (var training = trainer.under(open.get(i), group)) {
                        for (double[] step : training.times(plan)) add(measured.get(i), Slowest.of(group, step));
                        measured.get(i).set(MESSAGES, List.of((double) training.messages()));
                        measured.get(i).set(GRADIENTS, List.of((double) model.parameterCount() * Float.BYTES));
                    }
                    if (group.rank() == 0)
                        store(store, open.get(i), measured.get(i).samples());
                }
                say(group, "round %d of %d is stored in %s%n", round + 1, plan.rounds, store.path());
            }
            for (Case c : untraced) {
                List<Samples> overlap;
                try (var training = trainer.under(c, group)) {
                    overlap = overlap(group, training.trace(Path.of(plan.traces), group));
                }
                if (group.rank() == 0) overlaps.put(c, overlap);
                say(group, "traces of %s are in %s%n", label(c), plan.traces);
            }
        }
        return new Done(store.path().toString(), open.size());
    }

    /** The same case, as it yields what traces show. */
    private static Case overlap(Case c) {
        return new Case(c.workload(), c.implementation(), c.parameters(), c.settings(), OVERLAP);
    }

    /** One step's numbers: the phases, then the whole. */
    private static double[] numbers(double[] phases, double total) {
        double[] all = Arrays.copyOf(phases, phases.length + 1);
        all[phases.length] = total;
        return all;
    }

    private static void add(SampleCollector measured, double[] step) {
        double sum = 0;
        measured.add(TOTAL, step[PHASES.size()]);
        for (int k = 0; k < PHASES.size(); k++) {
            measured.add(Metric.ms(PHASES.get(k)), step[k]);
            sum += step[k];
        }
        measured.add(SHARE, 100 * step[PHASES.indexOf("communication")] / sum);
    }

    private static void store(MeasurementStore store, Case c, List<Samples> samples) throws IOException {
        store.measurements().putSteps(c, samples);
        store.put(c, samples);
    }

    /**
     * What a recorded step shows on a rank, in nanoseconds.
     *
     * @param communication that it communicated
     * @param overlapped of this, that it computed as well
     * @param computation that it computed
     * @param span that the step took
     */
    private record Recorded(long communication, long overlapped, long computation, long span) implements Serializable {
        static Recorded of(Activity activity) {
            Overlap overlap = Overlap.of(activity);
            Breakdown breakdown = Breakdown.of(activity);
            return new Recorded(
                    overlap.communication(), overlap.overlapped(), breakdown.computation(), breakdown.span());
        }
    }

    /** A value for each step, from the rank that communicated least: the others waited for it. */
    private static List<Samples> overlap(ProcessGroup group, ArrayList<Recorded> mine) {
        List<ArrayList<Recorded>> ranks = group.allGather(mine);
        List<List<Double>> values = OVERLAP.stream()
                .map(metric -> (List<Double>) new ArrayList<Double>())
                .toList();
        for (int i = 0; i < mine.size(); i++) {
            int step = i;
            Recorded last = ranks.stream()
                    .map(rank -> rank.get(step))
                    .min(Comparator.comparingLong(Recorded::communication))
                    .orElseThrow();
            values.get(0).add(last.communication / NANOS_PER_MS);
            values.get(1).add(last.overlapped / NANOS_PER_MS);
            values.get(2)
                    .add((double) last.overlapped / last.communication); // NaN where there was none, as with one rank
            values.get(3).add(100.0 * last.computation / last.span);
        }
        List<Samples> samples = new ArrayList<>();
        for (int i = 0; i < OVERLAP.size(); i++) samples.add(new Samples(OVERLAP.get(i), values.get(i)));
        return samples;
    }

    private static void say(ProcessGroup group, String format, Object... values) {
        if (group.rank() == 0) System.out.printf(format, values);
    }

    /** The name of a case's traces: {@code bucketed-25mb} or {@code naive}. */
    static String label(Case c) {
        String buckets = c.text("bucket_mb");
        return c.text("mode") + (buckets.equals("0") ? "" : "-" + buckets + "mb");
    }

    /** What all cases share. */
    private record Trainer(
            TransformerLM model, Optimizer optimizer, Precision precision, Batches.Batch batch, Splits splits) {
        Training under(Case c, ProcessGroup group) {
            String mode = c.text("mode");
            double megabytes = RankCases.megabytes(c);
            boolean alone = mode.equals(NONE);
            return new Training(
                    this,
                    label(c),
                    alone ? null : new DistributedDataParallel(model, group, Strategy.parse(mode, megabytes)));
        }
    }

    /** One case's steps. */
    private record Training(Trainer trainer, String label, DistributedDataParallel ddp) implements AutoCloseable {
        int messages() {
            return ddp == null ? 0 : ddp.collectivesPerStep();
        }

        ArrayList<double[]> times(Plan plan) {
            var times = new ArrayList<double[]>();
            for (int i = 0; i < plan.warmup + plan.steps; i++) {
                trainer.splits.start();
                long start = System.nanoTime();
                step();
                double[] phases = trainer.splits.ms(); // waits for the device
                double total = (System.nanoTime() - start) / NANOS_PER_MS;
                if (i >= plan.warmup) times.add(numbers(phases, total));
            }
            return times;
        }

        private void step() {
            Device device = trainer.model.device();
            try (var scope = MemoryScope.open()) {
                Tensor loss;
                try (var range = ProfilerRange.of("forward");
                        var autocast = trainer.precision.autocast(device)) {
                    loss = Losses.crossEntropy(trainer.model.forward(trainer.batch.inputs()), trainer.batch.targets());
                }
                trainer.splits.mark();
                try (var range = ProfilerRange.of("backward")) {
                    Backward.of(loss).run();
                }
                trainer.splits.mark();
            }
            if (ddp != null) ddp.finishGradientSynchronization();
            trainer.splits.mark();
            trainer.optimizer.step();
            trainer.optimizer.zeroGrad();
            trainer.splits.mark();
        }

        /** Leaves a trace in the folder; what each of its steps shows. */
        ArrayList<Recorded> trace(Path folder, ProcessGroup group) throws IOException {
            Files.createDirectories(folder);
            trainer.splits.start();
            step(); // the first one learns in which order gradients come
            group.barrier();
            Profile profile;
            try (var profiler = Profiler.start()) {
                for (int i = 0; i < TRACED_STEPS; i++) {
                    if (i > 0) profiler.step();
                    trainer.splits.start();
                    step();
                    trainer.splits.ms();
                }
                profile = profiler.stop();
            }
            profile.write(folder.resolve(label + "-rank" + group.rank() + ".json.gz"));
            var recorded = new ArrayList<Recorded>();
            for (int i = 0; i < TRACED_STEPS; i++) {
                recorded.add(Recorded.of(Activity.of(profile.trace().step(i)).get(0)));
            }
            return recorded;
        }

        @Override
        public void close() {
            if (ddp != null) ddp.close();
        }
    }
}
