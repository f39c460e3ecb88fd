package cs336.planner;

import cs336.basics.TransformerConfig;
import cs336.bench.ArgumentCheck;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.checkpointing.CheckpointPolicy;
import cs336.distributed.bench.FsdpMode;
import cs336.distributed.training.Strategy;
import cs336.scaling.memory.ModelMemory;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.Objects;

/**
 * A training step or forward pass to plan. The configuration states the model, its context length, its attention, its
 * normalization, its fusion and its activation checkpointing.
 *
 * <pre>{@code
 * StepPlan plan = StepPlan.of(ModelSize.XL.config(ModelEdition.SPRING_2025, 512)).withBatch(4);
 * PlanMemory.of(plan).table();
 * PlanMemory.of(plan.withGpus(2, FsdpMode.FSDP)).total();
 * }</pre>
 *
 * @param config the model
 * @param batch sequences of each GPU
 * @param precision number formats of the computation
 * @param pass the part of the step that is run
 * @param gpus number of GPUs that train the model
 * @param mode division of the model among the GPUs; without effect on one GPU
 * @param bucketMb maximum size of a bucket of gradients in MB (10⁶ bytes), in the modes with buckets
 * @param lossRows number of tokens whose logits are in memory at a time; 0 for all
 */
public record StepPlan(
        TransformerConfig config,
        int batch,
        Precision precision,
        Pass pass,
        int gpus,
        FsdpMode mode,
        double bucketMb,
        int lossRows) {
    /** The default size of buckets in MB (10⁶ bytes). */
    static final double BUCKET_MB = 25;

    /**
     * @throws IllegalArgumentException if a number is too small, the memory of the model is not predicted, or the mode
     *     is {@code hsdp}
     */
    public StepPlan {
        Objects.requireNonNull(precision, "precision must not be null");
        Objects.requireNonNull(pass, "pass must not be null");
        Objects.requireNonNull(mode, "mode must not be null");
        ArgumentCheck.atLeast("batch", 1, batch);
        ArgumentCheck.atLeast("gpus", 1, gpus);
        ArgumentCheck.atLeast("lossRows", 0, lossRows);
        Strategy.requireBucketSize("bucketMb", bucketMb);
        if (mode == FsdpMode.HSDP) {
            throw new IllegalArgumentException("mode must be ddp, zero-1, fsdp or fsdp-without-prefetch, not hsdp");
        }
        memory(config, batch, precision, isSharded(gpus, mode), lossRows); // reports an unknown attention
    }

    /** Returns the plan of a training step in fp32 on one GPU with one sequence, all logits and buckets of 25 MB. */
    public static StepPlan of(TransformerConfig config) {
        return new StepPlan(config, 1, Precision.FP32, Pass.STEP, 1, FsdpMode.DDP, BUCKET_MB, 0);
    }

    /** Returns this plan with another number of sequences for each GPU. */
    public StepPlan withBatch(int sequences) {
        return new StepPlan(config, sequences, precision, pass, gpus, mode, bucketMb, lossRows);
    }

    /** Returns this plan with another precision. */
    public StepPlan withPrecision(Precision other) {
        return new StepPlan(config, batch, other, pass, gpus, mode, bucketMb, lossRows);
    }

    /** Returns this plan with another pass. */
    public StepPlan withPass(Pass other) {
        return new StepPlan(config, batch, precision, other, gpus, mode, bucketMb, lossRows);
    }

    /** Returns this plan with another number of GPUs and another division of the model among them. */
    public StepPlan withGpus(int n, FsdpMode division) {
        return new StepPlan(config, batch, precision, pass, n, division, bucketMb, lossRows);
    }

    /** Returns this plan with another maximum size of buckets in MB (10⁶ bytes). */
    public StepPlan withBucketMb(double megabytes) {
        return new StepPlan(config, batch, precision, pass, gpus, mode, megabytes, lossRows);
    }

    /** Returns this plan with another number of tokens whose logits are in memory at a time; 0 for all. */
    public StepPlan withLossRows(int rows) {
        return new StepPlan(config, batch, precision, pass, gpus, mode, bucketMb, rows);
    }

    /** Returns this plan with another policy of activation checkpointing. */
    public StepPlan withCheckpointing(CheckpointPolicy policy) {
        return new StepPlan(config.withCheckpointing(policy), batch, precision, pass, gpus, mode, bucketMb, lossRows);
    }

    /** Returns a description in one line. */
    public String title() {
        String gpus = this.gpus == 1 ? "one GPU" : this.gpus + " GPUs (" + mode + ")";
        return "%s of a model with %,d parameters, batch %,d, context %,d, %s, %s attention, keeping %s, on %s"
                .formatted(
                        pass,
                        config.parameterCount(),
                        batch,
                        config.contextLength(),
                        precision,
                        config.attention(),
                        config.checkpointing(),
                        gpus);
    }

    /** Returns the memory of one GPU that holds the whole model. */
    ModelMemory memory() {
        return memory(config, batch, precision, isSharded(), lossRows);
    }

    /** Returns whether parameters are sharded (FSDP). They are then gathered in the type of the computation. */
    boolean isSharded() {
        return isSharded(gpus, mode);
    }

    private static boolean isSharded(int gpus, FsdpMode mode) {
        return gpus > 1 && (mode == FsdpMode.FSDP || mode == FsdpMode.FSDP_WITHOUT_PREFETCH);
    }

    private static ModelMemory memory(
            TransformerConfig config, int batch, Precision precision, boolean sharded, int lossRows) {
        DType compute = precision.compute();
        return new ModelMemory(config, batch, compute, DeviceKind.CUDA, sharded ? compute : DType.FLOAT32, lossRows);
    }
}
