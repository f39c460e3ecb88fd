package cs336.distributed.bench;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Losses;
import cs336.basics.Optimizer;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.bench.Splits;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.training.DistributedDataParallel;
import cs336.distributed.training.Strategy;
import cs336.torch.Backward;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * One rank's model, optimizer and batch, to be trained under several strategies. The surrounding memory scope owns the
 * batch.
 */
final class DdpTraining implements AutoCloseable {
    /** The phases of a step, in order. */
    static final List<String> PHASES = List.of("forward", "backward", "communication", "optimizer");

    private static final double LEARNING_RATE = 1e-3;

    private final ProcessGroup group;
    private final Precision precision;
    private final TransformerLM model;
    private final Optimizer optimizer;
    private final Splits splits;
    private final Batches.Batch batch;

    /**
     * Creates the model with random weights.
     *
     * @param c the model, batch size and precision; its mode is ignored
     */
    DdpTraining(RankCase c, ProcessGroup group) {
        TransformerConfig config = c.model().config();
        this.group = group;
        precision = c.precision();
        model = new TransformerLM(config, group.device());
        optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(LEARNING_RATE));
        splits = new Splits(group.device(), PHASES.size() + 1);
        batch = Batches.random(
                        config.vocabSize(), c.model().batch(), config.contextLength(), group.device(), group.rank())
                .next();
    }

    /** Returns the size of all gradients. */
    long gradientBytes() {
        return model.parameterCount() * Float.BYTES;
    }

    /** Wraps the model for the case's mode. Returns null for {@link DdpBenchmark#NONE}. */
    DistributedDataParallel wrap(RankCase c) {
        if (c.mode().equals(DdpBenchmark.NONE)) {
            return null;
        }
        return new DistributedDataParallel(model, group, Strategy.parse(c.mode(), c.bucketMb()));
    }

    /**
     * Returns the times of each timed step in milliseconds: its phases, then the measured wall time of the whole step.
     *
     * @param ddp the wrapper; null to train without communication
     */
    List<double[]> times(DistributedDataParallel ddp, TrainingPlan plan) {
        var times = new ArrayList<double[]>();
        for (int i = 0; i < plan.warmup() + plan.steps(); i++) {
            splits.start();
            long start = System.nanoTime();
            step(ddp);
            double[] phases = splits.ms(); // synchronises the device
            double total = (System.nanoTime() - start) / NANOS_PER_MS;
            if (i < plan.warmup()) {
                continue;
            }
            double[] step = Arrays.copyOf(phases, phases.length + 1);
            step[phases.length] = total;
            times.add(step);
        }
        return times;
    }

    /** Runs one untimed step, with the device synchronised before and after it. */
    void synchronizedStep(DistributedDataParallel ddp) {
        splits.start();
        step(ddp);
        splits.ms();
    }

    private void step(DistributedDataParallel ddp) {
        try (var scope = MemoryScope.open()) {
            Tensor loss;
            try (var range = ProfilerRange.of("forward");
                    var autocast = precision.autocast(group.device())) {
                loss = Losses.crossEntropy(model.forward(batch.inputs()), batch.targets());
            }
            splits.mark();
            try (var range = ProfilerRange.of("backward")) {
                Backward.of(loss).run();
            }
            splits.mark();
        }
        if (ddp != null) {
            ddp.finishGradientSynchronization();
        }
        splits.mark();
        optimizer.step();
        optimizer.zeroGrad();
        splits.mark();
    }

    @Override
    public void close() {
        splits.close();
        optimizer.close();
        model.close();
    }
}
