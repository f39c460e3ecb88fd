package cs336.distributed.bench;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.Losses;
import cs336.basics.NnModule;
import cs336.basics.Optimizer;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.training.DistributedDataParallel;
import cs336.distributed.training.ShardedOptimizer;
import cs336.distributed.training.Sharding;
import cs336.distributed.training.Strategy;
import cs336.torch.Backward;
import cs336.torch.MemoryScope;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * A model wrapped for data-parallel training with AdamW under a {@link ShardMode}.
 *
 * @param shards the optimizer if it is sharded; otherwise null
 */
record ShardTraining(ShardMode mode, DistributedDataParallel ddp, Optimizer optimizer, ShardedOptimizer<?> shards)
        implements AutoCloseable {
    private static final AdamWSettings ADAMW = AdamWSettings.of(1e-3);

    /**
     * Wraps a model and creates its optimizer.
     *
     * @param bucketMb maximum size of a bucket of gradients or parameters, in MB (10⁶ bytes)
     */
    static ShardTraining of(ShardMode mode, NnModule model, ProcessGroup group, double bucketMb) {
        if (!mode.isSharded()) {
            var ddp = new DistributedDataParallel(model, group, Strategy.bucketed(bucketMb));
            return new ShardTraining(mode, ddp, new AdamW(model.namedParameters(), ADAMW), null);
        }
        Sharding sharding = mode == ShardMode.BROADCAST ? Sharding.broadcast() : Sharding.allGather(bucketMb);
        var optimizer = new ShardedOptimizer<>(model.namedParameters(), AdamW::new, ADAMW, group, sharding);
        if (mode == ShardMode.ALL_GATHER || mode == ShardMode.ZERO_1) {
            optimizer.overlapWith(model);
        }
        var ddp = mode == ShardMode.ZERO_1
                ? new DistributedDataParallel(model, group, optimizer)
                : new DistributedDataParallel(model, group, Strategy.bucketed(bucketMb));
        return new ShardTraining(mode, ddp, optimizer, optimizer);
    }

    /**
     * Wraps a model and creates its optimizer.
     *
     * @param c a setup with a {@link ShardMode}, with {@link FsdpMode#DDP}, or with the name of a {@link Strategy} that
     *     averages gradients for optimizers without shards
     */
    static ShardTraining of(RankCase c, NnModule model, ProcessGroup group) {
        for (ShardMode mode : ShardMode.values()) {
            if (mode.toString().equals(c.mode())) {
                return of(mode, model, group, c.bucketMb());
            }
        }
        if (FsdpMode.DDP.toString().equals(c.mode())) {
            return of(ShardMode.UNSHARDED, model, group, c.bucketMb());
        }
        var ddp = new DistributedDataParallel(model, group, Strategy.parse(c.mode(), c.bucketMb()));
        return new ShardTraining(ShardMode.UNSHARDED, ddp, new AdamW(model.namedParameters(), ADAMW), null);
    }

    /**
     * Runs a training step in the phases of {@link ShardBenchmark}.
     *
     * @param endOfPhase called after each phase
     */
    void step(Batches.Batch batch, Runnable endOfPhase) {
        try (var scope = MemoryScope.open()) {
            Tensor loss = Losses.crossEntropy(ddp.forward(batch.inputs()), batch.targets());
            endOfPhase.run();
            Backward.of(loss).run();
            endOfPhase.run();
        }
        ddp.finishGradientSynchronization();
        endOfPhase.run();
        if (shards == null) {
            optimizer.step();
            endOfPhase.run();
        } else {
            shards.update();
            endOfPhase.run();
            if (mode != ShardMode.UNSYNCHRONIZED) {
                shards.synchronize();
            }
        }
        optimizer.zeroGrad();
        endOfPhase.run();
    }

    /** Blocks until the parameters of the last step have arrived from the other ranks. */
    void awaitParameters() {
        if (shards != null) {
            shards.awaitParameters();
        }
    }

    /**
     * Returns the optimizer state of all ranks in the form of an optimizer without shards. All ranks must call it.
     *
     * @return complete on rank 0 only; in the caller's memory scope
     */
    Map<String, Tensor> wholeState() {
        return shards == null ? optimizer.state() : shards.wholeState();
    }

    /** Returns the largest number of parameter bytes that a rank updates, divided by the mean. */
    double imbalance() {
        return shards == null ? 1 : shards.imbalance();
    }

    @Override
    public void close() {
        optimizer.close();
        ddp.close();
    }
}
