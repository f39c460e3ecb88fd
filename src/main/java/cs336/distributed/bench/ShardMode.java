package cs336.distributed.bench;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.NnModule;
import cs336.basics.Optimizer;
import cs336.bench.ArgumentCheck;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.training.DistributedDataParallel;
import cs336.distributed.training.ShardedOptimizer;
import cs336.distributed.training.Sharding;
import cs336.distributed.training.Strategy;
import java.util.List;

/**
 * What {@link ShardBenchmark} compares: how gradients, the optimizer's state and parameters are divided among ranks.
 */
public enum ShardMode {
    /** Gradients all-reduced, every rank with all of the state and all updates. */
    UNSHARDED("unsharded", null),
    /** Gradients all-reduced, updates of own parameters, each broadcast by itself. */
    BROADCAST("broadcast", "broadcast"),
    /** Gradients all-reduced, updates of own stretches, gathered while the next forward pass computes. */
    ALL_GATHER("all-gather", "all-gather"),
    /** The same with gradients reduced and scattered. */
    ZERO_1("zero-1", "all-gather"),
    /**
     * Gradients all-reduced, updates of own stretches, and no synchronisation: wrong, and what the time without it is.
     */
    UNSYNCHRONISED("unsynchronised", "all-gather");

    private final String label;
    private final String sharding;

    ShardMode(String label, String sharding) {
        this.label = label;
        this.sharding = sharding;
    }

    /**
     * Reads {@code unsharded}, {@code broadcast}, {@code all-gather}, {@code zero-1} or {@code unsynchronised}.
     *
     * @throws IllegalArgumentException if it is none of these
     */
    public static ShardMode parse(String label) {
        return ArgumentCheck.oneOf("mode", label, List.of(values()));
    }

    /** Whether a rank has only its share of the state. */
    public boolean isSharded() {
        return sharding != null;
    }

    /**
     * A wrapper of the model and its optimizer.
     *
     * @param megabytes of a bucket of gradients or parameters
     */
    Training begin(NnModule model, ProcessGroup group, AdamWSettings options, double megabytes) {
        if (!isSharded()) {
            var ddp = new DistributedDataParallel(model, group, Strategy.bucketed(megabytes));
            return new Training(ddp, new AdamW(model.namedParameters(), options), null);
        }
        Sharding how = this == BROADCAST ? Sharding.broadcast() : Sharding.allGather(megabytes);
        var optimizer = new ShardedOptimizer<>(model.namedParameters(), AdamW::new, options, group, how);
        if (this == ALL_GATHER || this == ZERO_1) {
            optimizer.overlapWith(model);
        }
        var ddp = this == ZERO_1
                ? new DistributedDataParallel(model, group, optimizer)
                : new DistributedDataParallel(model, group, Strategy.bucketed(megabytes));
        return new Training(ddp, optimizer, optimizer);
    }

    /**
     * What trains a model.
     *
     * @param shards the optimizer, if it is a sharded one; otherwise null
     */
    record Training(DistributedDataParallel ddp, Optimizer optimizer, ShardedOptimizer<?> shards)
            implements AutoCloseable {
        @Override
        public void close() {
            optimizer.close();
            ddp.close();
        }
    }

    @Override
    public String toString() {
        return label;
    }
}
