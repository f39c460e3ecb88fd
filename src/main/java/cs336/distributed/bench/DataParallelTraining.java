package cs336.distributed.bench;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Checkpoint;
import cs336.basics.GradientClipping;
import cs336.basics.Losses;
import cs336.basics.Optimizer;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.checkpoints.CheckpointFolder;
import cs336.checkpoints.TrainingProgress;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.World;
import cs336.distributed.training.FileWork;
import cs336.distributed.training.FsdpSettings;
import cs336.distributed.training.FullyShardedDataParallel;
import cs336.distributed.training.ShardedOptimizer;
import cs336.distributed.training.Strategy;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * A Transformer language model that is trained with AdamW in a mode of {@code cs336 ddp}, {@code cs336 shard} or
 * {@code cs336 fsdp}. In a 16-bit precision, containers of whole parameters run the forward pass under autocast; FSDP
 * casts parameters before it gathers them.
 *
 * @param model the module in the container
 * @param lossRows number of tokens whose logits are in memory at a time; 0 for all
 * @param whole the container of a mode with whole parameters; otherwise null
 * @param fsdp the container of a mode with sharded parameters; otherwise null
 */
record DataParallelTraining(
        Precision precision,
        Device device,
        TransformerLM model,
        int lossRows,
        ShardTraining whole,
        FullyShardedDataParallel fsdp,
        Optimizer optimizer)
        implements AutoCloseable {
    static final AdamWSettings ADAMW = AdamWSettings.of(1e-3);

    /** The phases of a step. */
    static final String FORWARD = "forward";

    static final String BACKWARD = "backward";
    static final String GRADIENTS = "gradients";
    static final String UPDATE = "update";

    /**
     * Creates a model, its container and its optimizer.
     *
     * @param c a setup with an {@link FsdpMode}, a {@link ShardMode}, or the name of a {@link Strategy} that averages
     *     gradients
     */
    static DataParallelTraining of(RankCase c, ProcessGroup group) {
        TransformerConfig config = c.model().config();
        Device device = group.device();
        FsdpSettings settings = settings(c, group);
        if (settings == null) {
            var model = new TransformerLM(config, device);
            ShardTraining training = ShardTraining.of(c, model, group);
            return new DataParallelTraining(
                    c.precision(), device, model, c.lossRows(), training, null, training.optimizer());
        }
        var fsdp = FullyShardedDataParallel.construct(() -> new TransformerLM(config, device), group, settings);
        return new DataParallelTraining(
                c.precision(),
                device,
                (TransformerLM) fsdp.module(),
                c.lossRows(),
                null,
                fsdp,
                new AdamW(fsdp.namedParameters(), ADAMW));
    }

    /** Returns the settings of a mode with sharded parameters, otherwise null. */
    private static FsdpSettings settings(RankCase c, ProcessGroup group) {
        FsdpSettings settings = FsdpSettings.standard();
        if (c.precision() == Precision.BF16) {
            settings = settings.withComputeDtype(DType.BFLOAT16);
        }
        if (c.mode().equals(FsdpMode.FSDP.toString())) {
            return settings;
        }
        if (c.mode().equals(FsdpMode.FSDP_WITHOUT_PREFETCH.toString())) {
            return settings.withMaxGatheredUnits(1);
        }
        if (c.mode().equals(FsdpMode.HSDP.toString())) {
            World world = group.world();
            requireEqualNodes(group.allGather(new int[] {world.localRank(), world.localSize()}));
            return settings.withReplicas(c.nodes());
        }
        return null;
    }

    /**
     * Checks that nodes have equally many ranks, whose numbers are consecutive.
     *
     * @param ranks for each rank, its local rank on its node, and the number of ranks on that node
     */
    static void requireEqualNodes(List<int[]> ranks) {
        int size = ranks.get(0)[1];
        for (int rank = 0; rank < ranks.size(); rank++) {
            int localRank = ranks.get(rank)[0];
            int localSize = ranks.get(rank)[1];
            if (localSize != size) {
                throw new IllegalArgumentException("mode hsdp needs the same number of ranks on each node, not " + size
                        + " on the node of rank 0 and " + localSize + " on the node of rank " + rank);
            }
            if (localRank != rank % size) {
                throw new IllegalArgumentException("mode hsdp needs consecutive ranks on each node, as with srun"
                        + " --distribution=block; rank " + rank + " has the local rank " + localRank + " of " + size);
            }
        }
    }

    /**
     * Runs a training step in the phases forward, backward, gradients and update.
     *
     * @param endOfPhase called after each phase
     * @return the loss of this rank's batch, without its graph, in the caller's memory scope
     */
    Tensor step(Batches.Batch batch, Runnable endOfPhase) {
        Tensor loss = backward(batch, endOfPhase);
        update();
        endOfPhase.run();
        return loss;
    }

    /**
     * Runs the phases forward, backward and gradients of a step.
     *
     * @param endOfPhase called after each phase
     * @return the loss of this rank's batch, without its graph, in the caller's memory scope
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
                whole.ddp().finishGradientSynchronization();
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

    /** Clips the averaged gradients by the norm of all of them. */
    void clipGradients(double maxNorm) {
        try (var scope = MemoryScope.open()) {
            if (optimizer instanceof ShardedOptimizer<?> sharded) {
                sharded.clipGradients(maxNorm);
            } else if (fsdp == null) {
                GradientClipping.clipByGlobalNorm(model.parameters(), maxNorm);
            } else {
                fsdp.clipGradients(maxNorm);
            }
        }
    }

    /** Updates the parameters. */
    void update() {
        try (var range = ProfilerRange.of(UPDATE)) {
            optimizer.step();
            optimizer.zeroGrad();
        }
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

    /**
     * Saves parameters and optimizer state of all ranks in the form of a single process. All ranks call it.
     *
     * @param folder used on rank 0 only
     * @throws IOException if the previous checkpoint could not be written
     */
    void save(CheckpointFolder folder, TrainingProgress progress, ProcessGroup group) throws IOException {
        FileWork.onRankZero(group, () -> folder.awaitWritten());
        try (var scope = MemoryScope.open()) {
            if (fsdp == null) {
                whole.awaitParameters();
            }
            Map<String, Tensor> parameters = fsdp == null ? model.stateDict() : fsdp.wholeStateDict();
            Map<String, Tensor> state = fsdp == null ? whole.wholeState() : fsdp.wholeState(optimizer);
            if (group.rank() == 0) {
                folder.save(progress, parameters, optimizer.kind(), state);
            }
        }
    }

    /**
     * Loads a checkpoint of any mode and number of ranks. All ranks call it.
     *
     * @return its text entries
     */
    Map<String, String> load(Path file) throws IOException {
        return fsdp == null ? Checkpoint.load(file, model.stateDict(), optimizer) : fsdp.load(file, optimizer);
    }

    @Override
    public void close() {
        if (fsdp == null) {
            whole.close();
        } else {
            optimizer.close();
            fsdp.close();
        }
        model.close();
    }
}
