package cs336.profile.memory;

import static cs336.units.UnitFactors.MIB;

import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Benchmark;
import cs336.bench.BenchmarkResult;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.ModelCase;
import cs336.bench.ModelCases;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.bench.Workload;
import cs336.checkpointing.CheckpointPolicy;
import cs336.scaling.memory.ModelMemory;
import cs336.torch.Device;
import java.util.function.Consumer;

/**
 * The workload of {@code cs336 checkpointing}: a model with one policy of activation checkpointing. Its metrics, with
 * memory in bytes and times in milliseconds:
 *
 * <ol>
 *   <li>{@code peak-memory}: the peak in the second run of a step, and {@code predicted-peak-memory}: the prediction of
 *       {@link ModelMemory}, for the models that it covers.
 *   <li>{@code recomputed-blocks}: forward passes of a block that the backward pass contains.
 *   <li>{@code total}, {@code forward}, {@code backward}: times of a step and its passes.
 * </ol>
 */
public final class CheckpointingWorkload implements Workload {
    private static final String POLICY = "checkpointing";
    private static final String BUDGET = "budget-\\d{1,9}";
    private static final Metric PEAK = Metric.bytes("peak-memory");
    private static final Metric PREDICTED_PEAK = Metric.bytes("predicted-peak-memory");
    private static final Metric RECOMPUTED = new Metric("recomputed-blocks", "blocks");

    /**
     * Returns the case of a model with a policy, without its device.
     *
     * @param policy as {@link CheckpointPolicy#parse}, or {@code budget-<MiB>}
     * @throws IllegalArgumentException if the policy is unknown, or needs a prediction that does not exist
     */
    static Case of(ModelCase of, String policy, int warmup, int steps) {
        boolean predicted = ModelMemory.isPredicted(of.model().config());
        if (!policy.matches(BUDGET)) {
            try {
                CheckpointPolicy.parse(policy);
            } catch (IllegalArgumentException e) {
                throw new IllegalArgumentException(e.getMessage() + ", budget-<MiB>", e);
            }
        } else if (!predicted) {
            TransformerConfig config = of.model().config();
            throw new IllegalArgumentException("--policy " + policy + " needs a prediction of the model's memory, but"
                    + " none exists for --normalization " + config.normalization() + " with --attention "
                    + config.attention());
        }
        Case c = ModelCases.of(CheckpointingWorkload.class, of)
                .with(POLICY, policy)
                .with("warmup", warmup)
                .with("steps", steps)
                .yields(PEAK, RECOMPUTED, Metric.ms("total"));
        for (String phase : of.pass().phases()) {
            c = c.yields(Metric.ms(phase));
        }
        return predicted ? c.yields(PREDICTED_PEAK) : c;
    }

    @Override
    public void run(Case c, Consumer<Samples> record) {
        Device device = Device.parse(c.text("device"));
        Precision precision = Precision.parse(c.text("dtype"));
        Pass pass = Pass.parse(c.text("pass"));
        int batch = c.integer("batch");
        TransformerConfig config = config(c, precision, device);
        if (ModelMemory.isPredicted(config)) {
            record.accept(Samples.once(
                    PREDICTED_PEAK,
                    memory(config, batch, precision, device).peak(pass).bytes()));
        }
        int recomputed = config.checkpointing().plan(config.numLayers()).recomputedBlocks();
        record.accept(Samples.once(RECOMPUTED, recomputed));

        MemoryRecord memory =
                PassMemory.of(config, device).batch(batch).precision(precision).record(pass);
        MemoryPhase forward = memory.phase(PassMemory.FORWARD, 1);
        record.accept(Samples.once(PEAK, memory.bytes(memory.peakEvent(forward.from(), memory.events()))));

        try (var model = new TransformerLM(config, device)) {
            BenchmarkResult result = Benchmark.of(model)
                    .batch(batch)
                    .precision(precision)
                    .warmup(c.integer("warmup"))
                    .steps(c.integer("steps"))
                    .run(pass);
            record.accept(result.samples("total"));
            pass.phases().forEach(phase -> record.accept(result.samples(phase)));
        }
    }

    private static TransformerConfig config(Case c, Precision precision, Device device) {
        TransformerConfig plain = ModelCases.config(c);
        String policy = c.text(POLICY);
        if (!policy.matches(BUDGET)) {
            return plain.withCheckpointing(CheckpointPolicy.parse(policy));
        }
        long bytes = (long) (Integer.parseInt(policy.substring(policy.indexOf('-') + 1)) * MIB);
        ModelMemory memory = memory(plain, c.integer("batch"), precision, device);
        return plain.withCheckpointing(CheckpointPolicy.budget(bytes, memory.blockBytes()));
    }

    private static ModelMemory memory(TransformerConfig config, int batch, Precision precision, Device device) {
        return new ModelMemory(config, batch, precision.compute(), device.kind());
    }
}
