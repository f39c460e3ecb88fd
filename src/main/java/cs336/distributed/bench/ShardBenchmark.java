package cs336.distributed.bench;

import cs336.basics.Batches;
import cs336.basics.TransformerLM;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.Splits;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.launch.RankProgram;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * A benchmark of optimizer state sharding: memory, time and communication volume of data-parallel training of a
 * Transformer language model in each {@link ShardMode}. Each rank has its own batch.
 *
 * <p><b>Memory.</b> On a single node, each mode first trains two steps with memory recording, see
 * {@link FirstStepsMemory}. These metrics have one value per rank.
 *
 * <p><b>Time.</b> The cases are then interleaved over several rounds, see {@link TrainingPlan}. Steps run back to back
 * without device synchronization, because a parameter all-gather overlaps with the next step. The first step has no
 * all-gather to wait for and is not timed. On CUDA the times are between events in the compute stream. Each value is
 * that of the slowest rank in that step:
 *
 * <ul>
 *   <li>{@code forward}, including the wait for parameters that are still in transit;
 *   <li>{@code backward};
 *   <li>{@code gradients}: from the end of the backward pass until the gradients are averaged;
 *   <li>{@code update}: the optimizer step on the parameters that the rank owns;
 *   <li>{@code parameters}: synchronization of the new parameters, or its launch if the next forward pass waits for
 *       them, and zeroing the gradients; with an unsharded optimizer only the latter;
 *   <li>{@code total}: the sum of the phases. It is an upper bound of the step time: if ranks wait for the slowest rank
 *       of a phase in the next phase, the wait counts twice;
 *   <li>{@code parameters-share}: percentage of {@code parameters} in the total.
 * </ul>
 *
 * <p><b>Communication</b> per step: the metrics of {@link CommunicationVolume}, and {@code imbalance}, see
 * {@link ShardTraining#imbalance}.
 */
public final class ShardBenchmark implements RankProgram<TrainingPlan, StoredResult> {
    private static final List<String> PHASES = List.of("forward", "backward", "gradients", "update", "parameters");
    private static final Metric TOTAL = Metric.ms("total");
    private static final Metric PARAMETERS_PERCENTAGE = new Metric("parameters-share", "%");
    private static final Metric IMBALANCE = new Metric("imbalance", "ratio");

    /**
     * Returns the case of a training setup.
     *
     * @param c the setup in fp32; its mode is a {@link ShardMode}
     */
    public static Case caseOf(RankCase c) {
        Case timed = c.toCase(
                        TOTAL,
                        PARAMETERS_PERCENTAGE,
                        CommunicationVolume.HANDED,
                        CommunicationVolume.LEAST_SENT,
                        IMBALANCE)
                .yields(PHASES.stream().map(Metric::ms).toArray(Metric[]::new));
        boolean recordsMemory = ShardMode.parse(c.mode()) != ShardMode.UNSYNCHRONIZED && c.nodes() == 1;
        return recordsMemory ? timed.yields(FirstStepsMemory.metrics()) : timed;
    }

    @Override
    public StoredResult run(ProcessGroup group, TrainingPlan plan) throws IOException {
        MeasurementStore store = MeasurementStore.of(plan.storage(), group.device(), group.size());
        List<Case> missing = store.lacking(group, plan.cases());
        if (missing.isEmpty()) {
            return new StoredResult(store.path().toString(), 0);
        }
        Torch.allowTf32(false);
        var collected = new ArrayList<SampleCollector>();
        MeasurementStore.measureEach(group, "memory", missing, i -> {
            SampleCollector samples = memory(group, missing.get(i));
            collected.add(samples);
            store.put(group, missing.get(i), samples, false);
        });
        store.measureRounds(group, plan.rounds(), missing, (i, isLast) -> {
            train(group, plan, RankCase.of(missing.get(i)), collected.get(i));
            store.put(group, missing.get(i), collected.get(i), isLast);
        });
        return new StoredResult(store.path().toString(), missing.size());
    }

    private static SampleCollector memory(ProcessGroup group, Case c) {
        var samples = new SampleCollector();
        if (c.metrics().containsAll(List.of(FirstStepsMemory.metrics()))) {
            for (Map<String, Double> rank : group.allGather(FirstStepsMemory.measure(group, RankCase.of(c)))) {
                rank.forEach((name, bytes) -> samples.add(Metric.bytes(name), bytes));
            }
        }
        return samples;
    }

    private static void train(ProcessGroup group, TrainingPlan plan, RankCase c, SampleCollector samples)
            throws IOException {
        int steps = 1 + plan.steps(); // the first one is not timed: its parameters are complete already
        Torch.seed(group.rank());
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(c.model().config(), group.device());
                var training = ShardTraining.of(ShardMode.parse(c.mode()), model, group, c.bucketMb());
                var splits = new Splits(group.device(), 1 + PHASES.size() * steps)) {
            Batches.Batch batch = c.batch(group);
            for (int i = 0; i < plan.warmup(); i++) {
                training.step(batch, () -> {});
            }
            training.awaitParameters();
            CommunicationVolume volume = CommunicationVolume.start(group);
            splits.start();
            for (int i = 0; i < steps; i++) {
                training.step(batch, splits::mark);
            }
            double[] times = splits.ms();
            training.awaitParameters();
            volume.stop();

            addTimes(samples, group.max(Arrays.copyOfRange(times, PHASES.size(), times.length)));
            volume.addTo(samples, steps);
            samples.set(IMBALANCE, List.of(training.imbalance()));
        }
    }

    private static void addTimes(SampleCollector samples, double[] phases) {
        for (int from = 0; from < phases.length; from += PHASES.size()) {
            double total = 0;
            for (int k = 0; k < PHASES.size(); k++) {
                total += phases[from + k];
            }
            samples.add(TOTAL, total);
            for (int k = 0; k < PHASES.size(); k++) {
                samples.add(Metric.ms(PHASES.get(k)), phases[from + k]);
            }
            samples.add(PARAMETERS_PERCENTAGE, 100 * phases[from + PHASES.indexOf("parameters")] / total);
        }
    }
}
