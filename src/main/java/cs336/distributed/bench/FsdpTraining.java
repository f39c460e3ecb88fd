package cs336.distributed.bench;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.GradientClipping;
import cs336.basics.Losses;
import cs336.basics.Optimizer;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Case;
import cs336.bench.Precision;
import cs336.checkpointing.CheckpointPolicy;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.training.DistributedDataParallel;
import cs336.distributed.training.FsdpSettings;
import cs336.distributed.training.FullyShardedDataParallel;
import cs336.distributed.training.ShardedOptimizer;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import org.bytedeco.pytorch.Tensor;

/**
 * A Transformer language model that is trained with AdamW under an {@link FsdpMode}. In a 16-bit precision DDP and ZeRO
 * stage 1 run the forward pass under autocast; FSDP casts parameters before it gathers them.
 *
 * @param lossRows number of tokens whose logits are in memory at a time; 0 for all
 * @param ddp the container of a mode with whole parameters; otherwise null
 * @param fsdp the container of a mode with sharded parameters; otherwise null
 */
record FsdpTraining(
        Precision precision,
        Device device,
        TransformerLM model,
        int lossRows,
        DistributedDataParallel ddp,
        FullyShardedDataParallel fsdp,
        Optimizer optimizer)
        implements AutoCloseable {
    private static final AdamWSettings ADAMW = AdamWSettings.of(1e-3);

    /** The parameter of a case that states {@code lossRows}. */
    static final String LOSS_ROWS = "loss_rows";

    /** The phases of a step. */
    static final String FORWARD = "forward";

    static final String BACKWARD = "backward";
    static final String GRADIENTS = "gradients";
    static final String UPDATE = "update";

    /** Creates the model of a case of {@link FsdpBenchmark}, its container and its optimizer. */
    static FsdpTraining of(Case stored, ProcessGroup group) {
        RankCase c = RankCase.of(stored);
        TransformerConfig config =
                c.model().config().withCheckpointing(CheckpointPolicy.parse(stored.text("checkpointing")));
        int lossRows = stored.integer(LOSS_ROWS);
        FsdpMode mode = FsdpMode.parse(c.mode());
        Device device = group.device();
        if (mode.hasBuckets()) {
            var model = new TransformerLM(config, device);
            ShardMode shards = mode == FsdpMode.ZERO_1 ? ShardMode.ZERO_1 : ShardMode.UNSHARDED;
            ShardTraining training = ShardTraining.of(shards, model, group, c.bucketMb());
            return new FsdpTraining(c.precision(), device, model, lossRows, training.ddp(), null, training.optimizer());
        }
        FsdpSettings settings = FsdpSettings.standard().withMaxGatheredUnits(mode == FsdpMode.FSDP ? 2 : 1);
        if (c.precision() == Precision.BF16) {
            settings = settings.withComputeDtype(DType.BFLOAT16);
        }
        var fsdp = FullyShardedDataParallel.construct(() -> new TransformerLM(config, device), group, settings);
        return new FsdpTraining(
                c.precision(),
                device,
                (TransformerLM) fsdp.module(),
                lossRows,
                null,
                fsdp,
                new AdamW(fsdp.namedParameters(), ADAMW));
    }

    /**
     * Runs forward and backward pass, and averages the gradients; calls {@code endOfPhase} after each of them.
     *
     * @return this rank's loss, a 0-dimensional tensor in the caller's memory scope
     */
    Tensor backward(Batches.Batch batch, Runnable endOfPhase) {
        Tensor value;
        try (var scope = MemoryScope.open()) {
            Tensor loss;
            try (var range = ProfilerRange.of(FORWARD)) {
                loss = loss(batch);
            }
            endOfPhase.run();
            try (var range = ProfilerRange.of(BACKWARD)) {
                Backward.of(loss).run();
            }
            endOfPhase.run();
            value = scope.escape(loss.detach());
        }
        try (var range = ProfilerRange.of(GRADIENTS)) {
            if (fsdp == null) {
                ddp.finishGradientSynchronization();
            } else {
                fsdp.finishGradientSynchronization();
            }
        }
        endOfPhase.run();
        return value;
    }

    /** Returns the norm of the averaged gradients, a 0-dimensional tensor in the caller's memory scope. */
    Tensor gradientNorm() {
        if (optimizer instanceof ShardedOptimizer<?> sharded) {
            return sharded.gradientNorm();
        }
        return fsdp == null ? GradientClipping.norm(model.parameters()) : fsdp.gradientNorm();
    }

    private Tensor loss(Batches.Batch batch) {
        if (fsdp != null) {
            return modelLoss(batch);
        }
        try (var autocast = precision.autocast(device)) {
            return modelLoss(batch);
        }
    }

    private Tensor modelLoss(Batches.Batch batch) {
        return lossRows == 0
                ? Losses.crossEntropy(model.forward(batch.inputs()), batch.targets())
                : model.loss(batch.inputs(), batch.targets(), lossRows);
    }

    /** Updates the parameters. */
    void update() {
        try (var range = ProfilerRange.of(UPDATE)) {
            optimizer.step();
            optimizer.zeroGrad();
        }
    }

    @Override
    public void close() {
        optimizer.close();
        if (fsdp == null) {
            ddp.close();
        } else {
            fsdp.close();
        }
        model.close();
    }
}
