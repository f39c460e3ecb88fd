package cs336.distributed.training;

import cs336.basics.Embedding;
import cs336.basics.NnModule;
import cs336.distributed.collectives.DeviceMesh;
import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.Reduction;
import cs336.torch.AtenOperator.TensorList;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;

/**
 * Parameters that {@link FullyShardedDataParallel} gathers, frees and reduces together.
 *
 * <p>A unit has several modules if they share a parameter, such as token embeddings and a tied LM head.
 */
final class FsdpUnit implements AutoCloseable {
    private final List<NnModule> modules = new ArrayList<>();
    private final List<FsdpParameter> parameters = new ArrayList<>();
    private final List<FsdpParameter> sharded = new ArrayList<>();
    private final DeviceMesh mesh;
    private PendingCollective gather; // null unless in progress
    private boolean gathered; // or in progress
    private boolean arrived; // a gradient, since the backward pass of this unit began
    private PendingCollective reduction; // of gradients, among shards or then among replicas; null unless in progress
    private List<FsdpParameter> reducedParameters;
    private Tensor reducedFlat; // the reduced gradients of all shards, so that one all-reduce takes them
    private List<Tensor> reducedShards; // views of it
    BackwardHook hook;

    /** The number of forward passes of its modules that have begun and not ended. */
    int forwards;
    /** True while its backward pass has begun and not ended. */
    boolean inBackward;
    /** True while its gradients await a reduction. */
    boolean unreduced;

    FsdpUnit(DeviceMesh mesh) {
        this.mesh = mesh;
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

    /**
     * Lets a layer inside of the unit that has sharded parameters itself reject calls outside of the unit's forward
     * pass, which alone gathers them.
     */
    void rejectSeparateCalls(NnModule layer) {
        List<Tensor> own = layer.ownParameters();
        sharded.stream()
                .filter(parameter -> parameter.isOneOf(own))
                .findFirst()
                .ifPresent(parameter -> layer.beforeForward(() -> requireInUse(parameter)));
    }

    private void requireInUse(FsdpParameter ofLayer) {
        if (!isInUse()) {
            throw new IllegalStateException("the layer of " + ofLayer.name() + " was called outside of the forward"
                    + " pass of its unit, whose parameters are not gathered; call the whole unit");
        }
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

    /**
     * Allocates the gathered parameters, and starts to gather them unless that has happened. Gathers them again if the
     * shards have changed, for example in an optimizer's step after a forward pass without a backward pass.
     */
    void startGather() {
        if (gathered && !isInUse() && parameters.stream().anyMatch(FsdpParameter::hasChanged)) {
            free();
        }
        if (gathered) {
            return;
        }
        try (var range = ProfilerRange.of("all-gather");
                var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            gathered = true;
            parameters.forEach(FsdpParameter::allocate);
            if (hasShards()) {
                gather = mesh.shards()
                        .allGatherAsync(
                                sharded.get(0).name(),
                                sharded.stream().map(FsdpParameter::gathered).toList(),
                                sharded.stream()
                                        .map(FsdpParameter::shardToGather)
                                        .toList());
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

    /** Checks that no gradient has arrived since the reduction: it would be lost. */
    void requireNoGradient() {
        sharded.stream().filter(FsdpParameter::hasGradient).findFirst().ifPresent(late -> {
            throw new IllegalStateException("the gradient of " + late.name() + " arrived after its reduction");
        });
    }

    /** Collects the gradients of a backward pass. */
    void takeGradients() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            for (FsdpParameter parameter : sharded) {
                arrived |= parameter.takeGradient();
            }
        }
    }

    /** Returns whether gradients of ended backward passes must still be reduced. */
    boolean awaitsReduction() {
        return unreduced && sharded.stream().anyMatch(FsdpParameter::hasGradient);
    }

    /** Returns whether gradients of a backward pass must be reduced, or are being reduced. */
    boolean hasPendingGradients() {
        return reduction != null || parameters.stream().anyMatch(FsdpParameter::hasPendingGradient);
    }

    /** Begins a backward pass, after collecting the gradients of earlier passes. */
    void beginBackward() {
        takeGradients();
        arrived = false;
    }

    /** Returns whether {@link #takeGradients} has found a gradient of the current backward pass. */
    boolean hasArrived() {
        return arrived;
    }

    /** Starts to reduce-scatter the gradients of all sharded, trainable parameters. */
    void startReduceScatter() {
        addReduced(); // of a backward pass before
        reducedParameters = sharded.stream().filter(FsdpParameter::isTrainable).toList();
        try (var range = ProfilerRange.of("reduce-scatter");
                var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            allocateReduced();
            reduction = mesh.shards()
                    .reduceScatterAsync(
                            reducedParameters.get(0).name(),
                            reducedShards,
                            reducedParameters.stream()
                                    .map(FsdpParameter::gradientToReduce)
                                    .toList(),
                            Reduction.AVERAGE);
        }
    }

    private void allocateReduced() {
        Map<String, Long> sizes = new LinkedHashMap<>();
        reducedParameters.forEach(parameter -> sizes.put(parameter.name(), parameter.shardElements()));
        FlatLayout.ShardedBucket layout =
                FlatLayout.of(sizes, Long.MAX_VALUE, 1).buckets().get(0);
        TensorOptions options =
                mesh.all().device().options(reducedParameters.get(0).reduceDtype());
        reducedFlat = MemoryScope.keep(torch.empty(new long[] {layout.elements()}, options, null));
        reducedShards = layout.slots().stream()
                .map(slot -> MemoryScope.keep(reducedFlat.narrow(0, slot.offset(), slot.elements())))
                .toList();
    }

    /**
     * Waits for the reduce-scatter. With one replica, adds the result to the gradients of the shards; otherwise starts
     * to all-reduce it among the replicas.
     */
    void endReduceScatter() {
        if (mesh.replicas() == null) {
            addReduced();
            return;
        }
        reduction.await();
        try (var range = ProfilerRange.of("all-reduce")) {
            reduction = mesh.replicas().allReduceAsync(reducedFlat, Reduction.AVERAGE);
        }
    }

    /** Waits for the reduction in progress, if there is one, and adds its result to the gradients of the shards. */
    void addReduced() {
        if (reduction == null) {
            return;
        }
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            awaitReduction();
            List<Tensor> shards = inMasterDtype();
            for (int i = 0; i < shards.size(); i++) {
                reducedParameters.get(i).addReduced(shards.get(i));
            }
        } finally {
            closeReduced();
        }
    }

    /**
     * Returns the reduced shards in the dtype of the master parameters, as views of one tensor. One kernel casts all of
     * them; PyTorch's copy of a single tensor with another dtype has a lower bandwidth.
     */
    private List<Tensor> inMasterDtype() {
        DType dtype = reducedParameters.get(0).masterDtype();
        if (DType.of(reducedFlat) == dtype
                || reducedParameters.stream().anyMatch(parameter -> parameter.masterDtype() != dtype)) {
            return reducedShards; // shards of several dtypes are cast separately
        }
        Tensor flat =
                torch.empty(Tensors.shape(reducedFlat), mesh.all().device().options(dtype), null);
        try (var from = TensorList.of(List.of(reducedFlat));
                var to = TensorList.of(List.of(flat))) {
            GradientBucket.FOREACH_COPY.call(to, from, false);
        }
        return reducedShards.stream()
                .map(shard -> flat.narrow(0, shard.storage_offset(), shard.numel()))
                .toList();
    }

    private void closeReduced() {
        reducedShards.forEach(Tensor::close);
        reducedFlat.close();
    }

    private void awaitReduction() {
        PendingCollective started = reduction;
        reduction = null;
        started.await();
    }

    /** Waits for the reduction in progress, if there is one, and discards its result. */
    void discardReduced() {
        if (reduction != null) {
            awaitReduction();
            closeReduced();
        }
    }

    @Override
    public void close() {
        hook.close();
        parameters.forEach(FsdpParameter::close);
    }
}
