package cs336.distributed.bench;

import static cs336.units.UnitFactors.NANOS_PER_MS;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Losses;
import cs336.basics.Optimizer;
import cs336.basics.TransformerLM;
import cs336.bench.Case;
import cs336.bench.Precision;
import cs336.bench.Splits;
import cs336.compile.CompiledStep;
import cs336.distributed.bench.DdpBenchmark.StepExecution;
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
    private static final int FIRST_STEPS = 4; // of a compiled step: two without a graph, a recorded and a replayed one

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
        this.group = group;
        precision = c.precision();
        model = new TransformerLM(c.model().config(), group.device());
        optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(LEARNING_RATE));
        splits = new Splits(group.device(), PHASES.size() + 1);
        batch = c.batch(group);
    }

    /** Returns the size of all gradients. */
    long gradientBytes() {
        return model.parameterCount() * Float.BYTES;
    }

    /**
     * The model in the container of a case.
     *
     * @param ddp null without communication
     * @param compiled null for eager steps
     * @param compiledOptimizer optimizer of the compiled step, which may store 16-bit copies of the weights
     */
    record WrappedModel(DistributedDataParallel ddp, CompiledStep compiled, Optimizer compiledOptimizer)
            implements AutoCloseable {
        boolean isCompiled() {
            return compiled != null;
        }

        int collectivesPerStep() {
            return ddp == null ? 0 : ddp.collectivesPerStep();
        }

        @Override
        public void close() {
            if (compiled != null) {
                compiled.close();
                compiledOptimizer.close();
            }
            if (ddp != null) {
                ddp.close();
            }
        }
    }

    /** Wraps the model for a case. A compiled step is recorded before this method returns. */
    WrappedModel wrap(Case c) {
        RankCase setup = RankCase.of(c);
        StepExecution execution = StepExecution.of(c);
        DistributedDataParallel ddp = setup.mode().equals(DdpBenchmark.NONE)
                ? null
                : new DistributedDataParallel(model, group, Strategy.parse(setup.mode(), setup.bucketMb()));
        if (execution == StepExecution.EAGER) {
            return new WrappedModel(ddp, null, null);
        }
        var ownOptimizer = new AdamW(model.namedParameters(), AdamWSettings.of(LEARNING_RATE));
        CompiledStep compiled = ddp == null
                ? CompiledStep.of(model, ownOptimizer, precision)
                : CompiledStep.of(ddp, ownOptimizer, precision);
        compiled.fuseKeepingAttention();
        if (execution == StepExecution.COMPILED_STEP_IN_GRAPH) {
            compiled.collectivesInGraph();
        }
        for (int i = 0; i < FIRST_STEPS; i++) {
            compiled.run(batch.inputs(), batch.targets());
        }
        return new WrappedModel(ddp, compiled, ownOptimizer);
    }

    /**
     * Returns the times of each timed step in milliseconds: its phases, then the measured wall time of the whole step.
     * For a compiled step the first phase is the whole step.
     */
    List<double[]> times(WrappedModel wrapped, TrainingPlan plan) {
        var times = new ArrayList<double[]>();
        for (int i = 0; i < plan.warmup() + plan.steps(); i++) {
            splits.start();
            long start = System.nanoTime();
            step(wrapped);
            double[] phases = splits.ms(); // synchronizes the device
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

    /** Runs one untimed step, with the device synchronized before and after it. */
    void synchronizedStep(WrappedModel wrapped) {
        splits.start();
        step(wrapped);
        splits.ms();
    }

    private void step(WrappedModel wrapped) {
        if (wrapped.isCompiled()) {
            wrapped.compiled.run(batch.inputs(), batch.targets());
            PHASES.forEach(phase -> splits.mark());
            return;
        }
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
        if (wrapped.ddp != null) {
            wrapped.ddp.finishGradientSynchronization();
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
