package cs336.distributed.training;

import cs336.basics.Embedding;
import cs336.basics.NnModule;
import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * Parameters that {@link FullyShardedDataParallel} gathers, frees and reduces together.
 *
 * <p>A unit has several modules if they share a parameter, such as token embeddings and a tied LM head.
 */
final class FsdpUnit implements AutoCloseable {
    private final List<NnModule> modules = new ArrayList<>();
    private final List<FsdpParameter> parameters = new ArrayList<>();
    private final List<FsdpParameter> sharded = new ArrayList<>();
    private final ProcessGroup group;
    private PendingCollective gather; // null unless in progress
    private boolean gathered; // or in progress
    BackwardHook hook;

    /** Forward passes of its modules that have begun and not ended. */
    int forwards;
    /** True while its backward pass has begun and not ended. */
    boolean inBackward;
    /** True while its gradients await a reduction. */
    boolean unreduced;

    FsdpUnit(ProcessGroup group) {
        this.group = group;
    }

    void add(NnModule module) {
        modules.add(module);
    }

    void add(FsdpParameter parameter) {
        parameters.add(parameter);
        if (parameter.isSharded()) {
            sharded.add(parameter);
        }
    }

    List<NnModule> modules() {
        return modules;
    }

    List<FsdpParameter> parameters() {
        return parameters;
    }

    /** Returns whether its forward pass calls that of another unit. */
    boolean contains(FsdpUnit other) {
        return modules.stream()
                .anyMatch(outer -> other.modules.stream()
                        .anyMatch(inner -> outer != inner && outer.layers().contains(inner)));
    }

    /** Returns whether all its modules are embeddings. */
    boolean isEmbedding() {
        return modules.stream().allMatch(Embedding.class::isInstance);
    }

    /** Returns whether it has parameters to gather; a unit of normalization weights has none. */
    boolean hasShards() {
        return !sharded.isEmpty();
    }

    /** Returns whether its sharded parameters are gathered, or are being gathered. */
    boolean isGathered() {
        return gathered && hasShards();
    }

    /** Returns whether it has gradients to reduce-scatter. */
    boolean isTrainable() {
        return sharded.stream().anyMatch(FsdpParameter::isTrainable);
    }

    boolean isInUse() {
        return forwards > 0 || inBackward;
    }

    /** Returns the bytes of its gathered parameters. */
    long gatheredBytes() {
        return parameters.stream().mapToLong(FsdpParameter::gatheredBytes).sum();
    }

    /** Allocates the gathered parameters, and starts to gather them unless that has happened. */
    void startGather() {
        if (gathered) {
            return;
        }
        try (var range = ProfilerRange.of("all-gather");
                var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            gathered = true;
            parameters.forEach(FsdpParameter::allocate);
            if (hasShards()) {
                gather = group.allGatherAsync(
                        sharded.stream().map(FsdpParameter::gathered).toList(),
                        sharded.stream().map(FsdpParameter::shardToGather).toList());
            }
        }
    }

    /** Waits for the gathered parameters, and lets the modules compute with them. */
    void awaitGather() {
        if (gather != null) {
            PendingCollective started = gather;
            gather = null;
            started.await();
        }
        parameters.forEach(FsdpParameter::useGathered);
    }

    /** Frees the gathered parameters. */
    void free() {
        if (gathered) {
            if (gather != null) {
                gather.await();
                gather = null;
            }
            parameters.forEach(FsdpParameter::free);
            gathered = false;
        }
    }

    /** Returns whether it has gradients that are not reduced, after {@link #takeGradients}. */
    boolean hasGradients() {
        return sharded.stream().anyMatch(FsdpParameter::hasGradient);
    }

    /** Collects the gradients of a backward pass. */
    void takeGradients() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            sharded.forEach(FsdpParameter::takeGradient);
        }
    }

    /**
     * Starts to reduce-scatter the gradients of all sharded, trainable parameters.
     *
     * @return an action that waits for the result and adds it to the gradients of the shards
     */
    Runnable startReduce() {
        List<FsdpParameter> trainable =
                sharded.stream().filter(FsdpParameter::isTrainable).toList();
        try (var range = ProfilerRange.of("reduce-scatter");
                var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            List<Tensor> shards = trainable.stream()
                    .map(parameter -> MemoryScope.keep(parameter.newReducedShard()))
                    .toList();
            PendingCollective reduction = group.reduceScatterAsync(
                    shards,
                    trainable.stream().map(FsdpParameter::gradientToReduce).toList(),
                    Reduction.AVERAGE);
            return () -> addReduced(reduction, trainable, shards);
        }
    }

    private static void addReduced(PendingCollective reduction, List<FsdpParameter> trainable, List<Tensor> shards) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            reduction.await();
            for (int i = 0; i < shards.size(); i++) {
                trainable.get(i).addReduced(shards.get(i));
            }
        } finally {
            shards.forEach(Tensor::close);
        }
    }

    @Override
    public void close() {
        hook.close();
        parameters.forEach(FsdpParameter::close);
    }
}
