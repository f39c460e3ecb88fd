package cs336.distributed.bench;

import cs336.basics.AdamW;
import cs336.basics.Batches;
import cs336.basics.Losses;
import cs336.basics.TransformerConfig;
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
import cs336.distributed.collectives.Traffic;
import cs336.distributed.launch.RankProgram;
import cs336.torch.Backward;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.bytedeco.pytorch.Tensor;

/**
 * Memory, time and traffic of data-parallel training of a Transformer language model with the optimizer whole and in
 * shards, by {@link ShardMode}. A rank has a batch of its own.
 *
 * <p>First each mode trains one step while memory is recorded, where there is one node, since others do not change it;
 * see {@link FirstStepMemory}. Of these numbers there is one a rank.
 *
 * <p>Then all modes take turns for several rounds, what drifts meanwhile drifts for all of them. The steps of a turn
 * follow each other without a wait for the card, since what is sent at the end of a step may arrive during the next
 * one; the first of them has nothing to wait for and is not timed. On CUDA times are between events in the stream that
 * computes. Of each number the rank where it is largest counts, step by step:
 *
 * <ul>
 *   <li>{@code forward}, with the wait for parameters that are on their way; {@code backward}; {@code gradients}, from
 *       the end of the backward pass until gradients are averaged; {@code update} of what a rank owns;
 *       {@code parameters}, until the new ones are there or, where the next forward pass waits for them, on their way;
 *       {@code total}, the sum of these, which is too much where ranks wait for each other: what one has computed for
 *       longer, the other has waited for.
 *   <li>{@code parameters-share} of the total, in percent.
 *   <li>Of a step: {@code handed}, bytes of the tensors that are handed to collectives; {@code least-sent}, what a rank
 *       has to send for these at least; {@code sent}, what each rank did send, as the system counts it.
 *   <li>{@code imbalance}: most bytes of parameters that a rank updates, over the mean.
 * </ul>
 *
 * <p>Rank 0 stores what there is after each round.
 */
public final class ShardBenchmark implements RankProgram<ShardBenchmark.Plan, ShardBenchmark.Done> {
    private static final double LEARNING_RATE = 1e-3;
    private static final List<String> PHASES = List.of("forward", "backward", "gradients", "update", "parameters");
    private static final Metric TOTAL = Metric.ms("total");
    private static final Metric SHARE = new Metric("parameters-share", "%");
    private static final Metric HANDED = Metric.bytes("handed");
    private static final Metric LEAST_SENT = Metric.bytes("least-sent");
    private static final Metric SENT = Metric.bytes("sent");
    private static final Metric IMBALANCE = new Metric("imbalance", "ratio");

    /**
     * What to measure, and where to store it.
     *
     * @param cases of one model and batch, see {@link #of}
     * @param warmup steps before timing begins, of each case in each round
     * @param steps timed steps, of each case in each round
     * @param rounds how often all cases take turns
     * @param storage where rank 0 stores what was measured
     */
    public record Plan(ArrayList<Case> cases, int warmup, int steps, int rounds, MeasurementFile storage)
            implements Serializable {
        private static final long serialVersionUID = 1;
    }

    /**
     * What was done.
     *
     * @param file where measurements are
     * @param measured cases that were measured; the others were stored already
     */
    public record Done(String file, int measured) implements Serializable {
        private static final long serialVersionUID = 1;
    }

    /**
     * The case of a model in a mode.
     *
     * @param megabytes of a bucket
     * @param nodes machines that take part, or pose as such
     * @param round tells rounds apart that are measured in turn with a peer
     */
    public static Case of(
            ModelOptions.Model model,
            CollectiveBackend backend,
            int nodes,
            int processes,
            ShardMode mode,
            double megabytes,
            int round) {
        Case c = RankCases.of(model, Precision.FP32, backend, nodes, processes, mode, megabytes, round)
                .yields(TOTAL, SHARE, HANDED, LEAST_SENT, IMBALANCE);
        for (String phase : PHASES) c = c.yields(Metric.ms(phase));
        return mode == ShardMode.UNSYNCHRONISED || nodes > 1 ? c : c.yields(FirstStepMemory.metrics());
    }

    @Override
    public Done run(ProcessGroup group, Plan plan) throws IOException {
        MeasurementStore store = MeasurementStore.of(plan.storage, group.device(), group.size());
        List<Case> open = store.lacking(group, plan.cases);
        if (open.isEmpty()) return new Done(store.path().toString(), 0);
        Torch.allowTf32(false);
        var measured = new ArrayList<SampleCollector>();
        for (Case c : open) {
            measured.add(memory(group, c));
            store(group, store, c, measured.get(measured.size() - 1));
        }
        for (int round = 0; round < plan.rounds; round++) {
            for (int i = 0; i < open.size(); i++) {
                train(group, plan, open.get(i), measured.get(i));
                store(group, store, open.get(i), measured.get(i));
            }
            if (group.rank() == 0) {
                System.out.printf("round %d of %d is stored in %s%n", round + 1, plan.rounds, store.path());
            }
        }
        return new Done(store.path().toString(), open.size());
    }

    private static SampleCollector memory(ProcessGroup group, Case c) {
        var byRank = new SampleCollector();
        if (c.metrics().containsAll(List.of(FirstStepMemory.metrics()))) {
            ShardMode mode = ShardMode.parse(c.text("mode"));
            var mine = FirstStepMemory.measure(
                    group, ModelCases.config(c), c.integer("batch"), mode, RankCases.megabytes(c));
            for (Map<String, Double> ranks : group.allGather(mine)) {
                ranks.forEach((name, bytes) -> byRank.add(Metric.bytes(name), bytes));
            }
        }
        return byRank;
    }

    private static void train(ProcessGroup group, Plan plan, Case c, SampleCollector measured) throws IOException {
        ShardMode mode = ShardMode.parse(c.text("mode"));
        TransformerConfig config = ModelCases.config(c);
        int steps = 1 + plan.steps; // the first one finds all parameters gathered, and is not timed
        Torch.seed(group.rank());
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(config, group.device());
                var training = mode.begin(model, group, AdamW.Options.of(LEARNING_RATE), RankCases.megabytes(c));
                var splits = new Splits(group.device(), 1 + PHASES.size() * steps)) {
            Batches.Batch data = Batches.random(
                            config.vocabSize(),
                            c.integer("batch"),
                            config.contextLength(),
                            group.device(),
                            group.rank())
                    .next();
            for (int i = 0; i < plan.warmup; i++) step(mode, training, data, () -> {});
            group.barrier();
            OptionalLong sent = SentBytes.of(group);
            group.barrier(); // to ask for the bytes may take one rank longer than another
            Traffic handed = group.traffic();
            splits.start();
            for (int i = 0; i < steps; i++) step(mode, training, data, splits::mark);
            double[] times = splits.ms();
            Traffic then = group.traffic();
            group.barrier();
            OptionalLong sentThen = SentBytes.of(group);
            if (training.shards() != null) training.shards().awaitParameters();

            addTimes(measured, Slowest.of(group, Arrays.copyOfRange(times, PHASES.size(), times.length)));
            Traffic ofSteps = then.since(handed);
            measured.set(HANDED, List.of((double) bytes(ofSteps) / steps));
            measured.set(LEAST_SENT, List.of(ofSteps.leastSent(group.size()) / steps));
            addSent(group, steps, sent, sentThen, measured);
            double imbalance = training.shards() == null ? 1 : training.shards().imbalance();
            measured.set(IMBALANCE, List.of(imbalance));
        }
    }

    private static void step(ShardMode mode, ShardMode.Training training, Batches.Batch data, Runnable endOfPhase) {
        try (var scope = MemoryScope.open()) {
            Tensor loss = Losses.crossEntropy(training.ddp().forward(data.inputs()), data.targets());
            endOfPhase.run();
            Backward.of(loss).run();
            endOfPhase.run();
        }
        training.ddp().finishGradientSynchronization();
        endOfPhase.run();
        if (training.shards() == null) {
            training.optimizer().step();
            endOfPhase.run();
        } else {
            training.shards().update();
            endOfPhase.run();
            if (mode != ShardMode.UNSYNCHRONISED) training.shards().synchronise();
        }
        training.optimizer().zeroGrad();
        endOfPhase.run();
    }

    private static long bytes(Traffic traffic) {
        return traffic.byOperation().values().stream()
                .mapToLong(Traffic.Volume::bytes)
                .sum();
    }

    /** A number a rank, on average over the steps. */
    private static void addSent(
            ProcessGroup group, int steps, OptionalLong from, OptionalLong until, SampleCollector measured) {
        double mine = from.isPresent() && until.isPresent()
                ? (double) (until.getAsLong() - from.getAsLong()) / steps
                : Double.NaN;
        List<Double> byRank = group.allGather(mine);
        if (byRank.stream().noneMatch(d -> d.isNaN())) measured.set(SENT, byRank);
    }

    private static void addTimes(SampleCollector measured, double[] phases) {
        for (int from = 0; from < phases.length; from += PHASES.size()) {
            double total = 0;
            for (int k = 0; k < PHASES.size(); k++) total += phases[from + k];
            measured.add(TOTAL, total);
            for (int k = 0; k < PHASES.size(); k++) measured.add(Metric.ms(PHASES.get(k)), phases[from + k]);
            measured.add(SHARE, 100 * phases[from + PHASES.indexOf("parameters")] / total);
        }
    }

    private static void store(ProcessGroup group, MeasurementStore store, Case c, SampleCollector measured)
            throws IOException {
        List<Samples> samples = measured.samples();
        if (group.rank() == 0 && !samples.isEmpty()) store.put(c, samples);
    }
}
