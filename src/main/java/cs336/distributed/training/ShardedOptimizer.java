package cs336.distributed.training;

import cs336.basics.Checkpoint;
import cs336.basics.GradientClipping;
import cs336.basics.NnModule;
import cs336.basics.Optimizer;
import cs336.distributed.collectives.CollectiveFailure;
import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.Tensors;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.BiFunction;
import org.bytedeco.pytorch.Tensor;

/**
 * An optimizer whose state is sharded over ranks (ZeRO stage 1). Each rank holds the state, such as Adam's moments, of
 * its shard of the parameters only. It updates that shard and then receives the other shards from their ranks. A
 * {@link Sharding} defines the shards and how they are exchanged.
 *
 * <pre>{@code
 * var optimizer = new ShardedOptimizer<>(
 *         model.namedParameters(), AdamW::new, AdamWSettings.of(1e-3), group, Sharding.broadcast());
 * optimizer.add(unfrozen, AdamWSettings.of(1e-4));
 * }</pre>
 *
 * <p>All ranks make the same calls with the same parameters in the same order. A parameter with two names, such as a
 * tied LM head, is one parameter under its first name.
 *
 * <p>After {@link #close} every method that updates, gathers or loads throws an {@link IllegalStateException} on every
 * rank.
 *
 * @param <O> settings of a parameter group
 */
public final class ShardedOptimizer<O> implements Optimizer {
    private final BiFunction<Map<String, Tensor>, O, ? extends Optimizer> factory;
    private final ProcessGroup group;
    private final Sharding sharding;
    private ShardAssignment assignment; // of whole parameters
    private final Map<String, Tensor> parameters = new LinkedHashMap<>();
    private final List<ShardedGroup> shardedGroups = new ArrayList<>();
    private final ShardedState state;
    private final Map<NnModule, Runnable> waitOf = new IdentityHashMap<>(); // its layers' actions
    private NnModule model; // whose forward pass waits for its parameters; null if step() waits
    private boolean gradientsAreClipped;
    private boolean closed;

    /**
     * A parameter group with its own settings.
     *
     * @param parameters the parameters by name
     * @param options the settings of the group, which the factory receives
     */
    public record ParameterGroup<O>(Map<String, Tensor> parameters, O options) {}

    /**
     * The shards of a parameter group.
     *
     * @param optimizer the optimizer of this rank's shard
     */
    record ShardedGroup(Shards shards, Optimizer optimizer) {}

    /**
     * Creates an optimizer of one parameter group; see {@link #ShardedOptimizer(List, BiFunction, ProcessGroup,
     * Sharding)}.
     */
    public ShardedOptimizer(
            Map<String, Tensor> parameters,
            BiFunction<Map<String, Tensor>, O, ? extends Optimizer> factory,
            O options,
            ProcessGroup group,
            Sharding sharding) {
        this(List.of(new ParameterGroup<>(parameters, options)), factory, group, sharding);
    }

    /**
     * Creates an optimizer of several parameter groups.
     *
     * @param groups at least one
     * @param factory creates an optimizer from this rank's shard of a group, which may be empty, and the group's
     *     settings; for example {@code AdamW::new}
     * @throws IllegalArgumentException on every rank, if parameters or shardings differ between ranks or the optimizer
     *     of one rank cannot be created; on this rank, if {@code groups} is empty, or if a parameter is in two groups
     *     or is not a contiguous floating-point tensor on the group's device
     */
    public ShardedOptimizer(
            List<ParameterGroup<O>> groups,
            BiFunction<Map<String, Tensor>, O, ? extends Optimizer> factory,
            ProcessGroup group,
            Sharding sharding) {
        if (groups.isEmpty()) {
            throw new IllegalArgumentException("groups must have at least 1 parameter group, not 0");
        }
        this.factory = factory;
        this.group = group;
        this.sharding = sharding;
        requireSameSharding();
        assignment = new ShardAssignment(group.size());
        state = new ShardedState(group, parameters, shardedGroups);
        try {
            groups.forEach(g -> add(g.parameters, g.options));
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    private void requireSameSharding() {
        String description = sharding instanceof Sharding.AllGather flat
                ? sharding + " of buckets of " + flat.bucketMb() + " MB"
                : String.valueOf(sharding);
        SameParameters.require(group, List.of(description), "sharding", "sharding");
    }

    /**
     * Adds a parameter group between two steps. All ranks call it. If it fails, nothing changes on any rank. If only
     * this rank's parameters are invalid, the other ranks fail at the timeout.
     *
     * @throws IllegalArgumentException on every rank, if parameters differ between ranks or the optimizer of one rank
     *     cannot be created; or if a parameter is closed, sharded by FSDP or already in this optimizer, or is not a
     *     contiguous floating-point tensor on the group's device
     */
    public void add(Map<String, Tensor> more, O options) {
        requireOpen("add()");
        awaitParameters();
        Map<String, Tensor> distinct = distinct(more);
        SameParameters.require(group, distinct);
        ShardAssignment extended = extendedAssignment(distinct);
        Shards shards = sharding instanceof Sharding.AllGather flat
                ? new AllGatherShards(distinct, flat.bucketMb(), group)
                : new BroadcastShards(distinct, extended, group);
        Optimizer optimizer = createOnAllRanks(shards, options);
        assignment = extended;
        parameters.putAll(distinct);
        shardedGroups.add(new ShardedGroup(shards, optimizer));
        if (model != null) {
            overlapWith(model);
        }
    }

    private ShardAssignment extendedAssignment(Map<String, Tensor> more) {
        var sizes = new LinkedHashMap<String, Long>();
        more.forEach((name, parameter) -> sizes.put(name, parameter.nbytes()));
        ShardAssignment extended = assignment.copy();
        extended.add(sizes);
        return extended;
    }

    /** Creates the optimizer of this rank's shard. If that fails on any rank, undoes the sharding on all of them. */
    private Optimizer createOnAllRanks(Shards shards, O options) {
        Optimizer created = null;
        RuntimeException failure = null;
        try {
            created = factory.apply(shards.local(), options);
        } catch (RuntimeException e) {
            failure = e;
        }
        List<String> failures = group.allGather(failure == null ? "" : failure.toString());
        for (int rank = 0; rank < failures.size(); rank++) {
            if (failures.get(rank).isEmpty()) {
                continue;
            }
            if (created != null) {
                created.close();
            }
            shards.undo();
            if (failure != null) {
                throw failure;
            }
            throw new IllegalArgumentException(
                    "the optimizer of rank " + rank + " could not be created: " + failures.get(rank));
        }
        return created;
    }

    /** Returns each parameter once, under its first name. */
    private Map<String, Tensor> distinct(Map<String, Tensor> more) {
        var distinct = new LinkedHashMap<String, Tensor>();
        more.forEach((name, parameter) -> {
            requireNew(name, parameter);
            if (distinct.values().stream().noneMatch(parameter::is_same)) {
                distinct.put(name, parameter);
            }
        });
        return distinct;
    }

    private void requireNew(String name, Tensor parameter) {
        Tensors.requireDefined("parameter " + name, parameter);
        if (!parameter.is_floating_point() || !parameter.is_contiguous()) {
            throw new IllegalArgumentException("parameter " + name + " must be a contiguous floating-point tensor");
        }
        if (parameter.is_cuda() != group.device().isCuda()) {
            throw new IllegalArgumentException("parameter " + name + " must be on " + group.device());
        }
        for (var known : parameters.entrySet()) {
            if (known.getKey().equals(name) || known.getValue().is_same(parameter)) {
                throw new IllegalArgumentException("parameter " + name + " is already in this optimizer"
                        + (known.getKey().equals(name) ? "" : ", as " + known.getKey()));
            }
        }
    }

    /**
     * Overlaps the exchange of updated parameters with the next forward pass of a model: each layer waits for its own
     * parameters only. Without this {@link #step} waits for all parameters. Code that reads parameters between
     * {@link #step} and the end of that forward pass must call {@link #awaitParameters} first. With
     * {@link Sharding#broadcast} there is no overlap, since the first layer waits for all parameters. A layer may wait
     * for several optimizers. A call for another model replaces this one.
     */
    public void overlapWith(NnModule model) {
        removeWaits();
        this.model = model;
        for (NnModule layer : model.layers()) {
            List<Runnable> waits = new ArrayList<>();
            for (Tensor parameter : layer.ownParameters()) {
                shardedGroups.stream()
                        .map(sharded -> sharded.shards.awaiting(parameter))
                        .filter(Objects::nonNull)
                        .forEach(waits::add);
            }
            Runnable wait = () -> waits.forEach(Runnable::run);
            layer.beforeForward(wait);
            waitOf.put(layer, wait);
        }
    }

    private void removeWaits() {
        waitOf.forEach(NnModule::removeBeforeForward);
        waitOf.clear();
    }

    /**
     * Returns the collectives that average gradients into this optimizer's shards; see {@link DistributedDataParallel}.
     */
    List<GradientCollective> gradientCollectives(List<Tensor> trainable) {
        for (Tensor parameter : trainable) {
            if (parameters.values().stream().noneMatch(parameter::is_same)) {
                throw new IllegalArgumentException("every trainable parameter must be in the optimizer; one of shape "
                        + Arrays.toString(Tensors.shape(parameter)) + " is not");
            }
        }
        List<GradientCollective> collectives = new ArrayList<>();
        shardedGroups.forEach(sharded -> collectives.addAll(0, sharded.shards.gradientCollectives(trainable)));
        return collectives;
    }

    /** Waits until all updated parameters may be used; see {@link PendingCollective#await}. */
    public void awaitParameters() {
        shardedGroups.forEach(sharded -> sharded.shards.await());
    }

    /** Returns the parameters of all ranks by name, in the order in which they were added. */
    @Override
    public Map<String, Tensor> parameters() {
        return Collections.unmodifiableMap(parameters);
    }

    /** Returns the bytes of each rank's shard of the parameters. */
    public long[] shardBytes() {
        var bytes = new long[group.size()];
        for (ShardedGroup sharded : shardedGroups) {
            long[] more = sharded.shards.bytesPerRank();
            Arrays.setAll(bytes, rank -> bytes[rank] + more[rank]);
        }
        return bytes;
    }

    /** Returns the largest of {@link #shardBytes} over their mean: 1 is best, the number of ranks is worst. */
    public double imbalance() {
        return ShardAssignment.imbalance(shardBytes());
    }

    /** Updates every parameter that has a gradient, on the rank that owns it, and sends the result to all ranks. */
    @Override
    public void step() {
        update();
        synchronize();
    }

    /** Runs the first half of a step: each rank updates its own shard. */
    public void update() {
        requireOpen("step()");
        try (var range = ProfilerRange.of("optimizer")) {
            awaitParameters();
            assignGradients();
            shardedGroups.forEach(sharded -> sharded.optimizer.step());
            clearGradients();
        }
    }

    /** Runs the second half of a step: starts the exchange of updated parameters, and waits unless it overlaps. */
    public void synchronize() {
        requireOpen("synchronize()");
        try (var range = ProfilerRange.of("parameters");
                var noGrad = NoGrad.open()) {
            shardedGroups.forEach(sharded -> sharded.shards.startSynchronization());
        }
        if (model == null) {
            awaitParameters();
        }
    }

    private void assignGradients() {
        if (!gradientsAreClipped) {
            shardedGroups.forEach(sharded -> {
                sharded.shards.clearGradients();
                sharded.shards.assignGradients();
            });
        }
    }

    private void clearGradients() {
        shardedGroups.forEach(sharded -> sharded.shards.clearGradients());
        gradientsAreClipped = false;
    }

    /** All-reduces the flag: after a reduce-scatter, an overflow is visible on the rank that owns the gradient only. */
    @Override
    public void agreeOnOverflow(Tensor foundInf) {
        requireOpen("agreeOnOverflow()");
        group.allReduce(foundInf, Reduction.MAX);
    }

    @Override
    public void zeroGrad() {
        requireOpen("zeroGrad()");
        clearGradients();
        Optimizer.super.zeroGrad();
    }

    /**
     * Returns the global L2 norm of the gradients of the whole model. Must be called directly before {@link #step} or
     * {@link #clipGradients}.
     *
     * @return equal on all ranks; a 0-dimensional tensor in the caller's memory scope
     * @throws IllegalArgumentException if there are no parameters
     */
    public Tensor gradientNorm() {
        requireOpen("gradientNorm()");
        if (parameters.isEmpty()) {
            throw new IllegalArgumentException("there are no parameters, so there is no gradient norm");
        }
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            assignGradients();
            Tensor squares = ShardedNorm.squared(localShards(), group.device());
            group.allReduce(squares, Reduction.SUM);
            return scope.escape(ShardedNorm.root(
                    squares, DType.of(parameters.values().iterator().next())));
        }
    }

    private List<Tensor> localShards() {
        List<Tensor> local = new ArrayList<>();
        shardedGroups.forEach(sharded -> local.addAll(sharded.shards.local().values()));
        return local;
    }

    /**
     * Clips the gradients by the global norm of the whole model, like {@link GradientClipping#clipByGlobalNorm}. Must
     * be called directly before {@link #step}. Each rank scales the gradients of its own shard only, so afterwards
     * {@code grad()} of a parameter is meaningful to {@link #step} only.
     *
     * @param maxNorm above 0
     * @return the norm of all gradients before clipping, equal on all ranks; a 0-dimensional tensor in the caller's
     *     memory scope
     * @throws IllegalArgumentException if {@code maxNorm} is not above 0, or there are no parameters
     */
    public Tensor clipGradients(double maxNorm) {
        requireOpen("clipGradients()");
        if (parameters.isEmpty()) {
            throw new IllegalArgumentException("there are no parameters to clip");
        }
        GradientClipping.requireAboveZero(maxNorm);
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor norm = gradientNorm();
            GradientClipping.clip(localShards(), norm, maxNorm);
            gradientsAreClipped = true;
            return scope.escape(norm);
        }
    }

    /** Returns the learning rate of the first parameter group. */
    @Override
    public double learningRate() {
        return shardedGroups.get(0).optimizer.learningRate();
    }

    /**
     * Sets the learning rate of every parameter group.
     *
     * @throws IllegalArgumentException if the optimizer of a group rejects it; then nothing changes
     */
    @Override
    public void setLearningRate(double learningRate) {
        List<Double> before = shardedGroups.stream()
                .map(sharded -> sharded.optimizer.learningRate())
                .toList();
        try {
            shardedGroups.forEach(sharded -> sharded.optimizer.setLearningRate(learningRate));
        } catch (IllegalArgumentException e) {
            for (int i = 0; i < before.size(); i++) {
                setLearningRate(i, before.get(i));
            }
            throw e;
        }
    }

    /**
     * Sets the learning rate of one parameter group.
     *
     * @param index index of the group, from 0, in the order in which they were added
     * @throws IndexOutOfBoundsException if there is no such group
     */
    public void setLearningRate(int index, double learningRate) {
        shardedGroups
                .get(Objects.checkIndex(index, shardedGroups.size()))
                .optimizer
                .setLearningRate(learningRate);
    }

    @Override
    public String kind() {
        return shardedGroups.get(0).optimizer.kind();
    }

    /** Returns the state of this rank's shard; {@link #wholeState} returns that of all ranks. */
    @Override
    public Map<String, Tensor> state() {
        return state.local();
    }

    /**
     * Gathers the state of all ranks in the form of an optimizer without shards. All ranks must call it.
     *
     * @return on rank 0 tensors on the CPU in the caller's memory scope; on the other ranks an empty map
     */
    public Map<String, Tensor> wholeState() {
        requireOpen("wholeState()");
        return state.gather();
    }

    @Override
    public void requireLoadable(Map<String, Tensor> whole) {
        state.requireLoadable(whole);
    }

    /**
     * Loads the state of an optimizer without shards, or one returned by {@link #wholeState} for any number of ranks
     * and any {@link Sharding}. All ranks must call it with the same state.
     *
     * @throws IllegalArgumentException on every rank, if an entry belongs to no parameter, a parameter has only some of
     *     its tensors, or a shape or dtype differs; then nothing changes on any rank
     */
    @Override
    public void loadState(Map<String, Tensor> whole) {
        requireOpen("loadState()");
        awaitParameters();
        state.load(whole);
    }

    /**
     * Saves the parameters and the state of all ranks in one file. An optimizer without shards can load it too, and
     * {@link Checkpoint#load(Path, Map, Optimizer)} loads it into this one. All ranks must call it; rank 0 writes.
     *
     * @param parameters the parameters of the whole model by name
     * @param metadata texts to store in the file; the key {@code optimizer} is reserved
     * @throws IOException on every rank, if the file cannot be written
     * @throws IllegalArgumentException on every rank, if {@code metadata} contains the reserved key
     */
    public void save(Path file, Map<String, Tensor> parameters, Map<String, String> metadata) throws IOException {
        requireOpen("save()");
        awaitParameters();
        state.save(file, parameters, kind(), metadata);
    }

    private void requireOpen(String call) {
        if (closed) {
            throw new IllegalStateException(call + " was called on a closed optimizer; create a new one");
        }
    }

    /**
     * Waits for pending parameters, frees the memory of this object, and removes its hooks from the model's forward
     * pass. The parameters remain. A second call does nothing.
     *
     * @throws CollectiveFailure if parameters did not arrive and that failure has not been thrown before
     */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        try {
            if (group.failure() == null) {
                awaitParameters();
            }
        } finally {
            shardedGroups.forEach(sharded -> {
                sharded.optimizer.close();
                sharded.shards.close();
            });
            removeWaits();
        }
    }
}
