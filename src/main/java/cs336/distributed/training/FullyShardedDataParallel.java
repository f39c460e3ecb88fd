package cs336.distributed.training;

import cs336.basics.Checkpoint;
import cs336.basics.Embedding;
import cs336.basics.GradientClipping;
import cs336.basics.Linear;
import cs336.basics.NnModule;
import cs336.basics.Optimizer;
import cs336.distributed.collectives.DeviceMesh;
import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.OperatorInterceptor;
import cs336.torch.ProfilerRange;
import cs336.torch.ShardedParameters;
import cs336.torch.Tensors;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;

/**
 * Fully sharded data parallelism (FSDP, ZeRO stage 3): each rank holds a shard of the parameters, of their gradients
 * and of the optimizer state, and computes on its own fraction of the batch. The parameters of a unit, such as a
 * Transformer block, are gathered from all ranks just before they are used, and freed afterwards.
 *
 * <pre>{@code
 * var fsdp = FullyShardedDataParallel.construct(
 *         () -> new TransformerLM(config, group.device()), group, FsdpSettings.standard());
 * var optimizer = new AdamW(fsdp.namedParameters(), AdamWSettings.of(1e-3));
 * for (Batch batch : localBatches) {
 *     try (var scope = MemoryScope.open()) {
 *         Losses.crossEntropy(fsdp.forward(batch.inputs()), batch.targets()).backward();
 *         fsdp.finishGradientSynchronization();
 *         optimizer.step();
 *         optimizer.zeroGrad();
 *     }
 * }
 * }</pre>
 *
 * <p><b>Shards.</b> The parameters of every {@link Linear} and {@link Embedding}, and of the modules that
 * {@link FsdpSettings} names, are sharded by rows (dimension 0). The others are replicated. {@link #namedParameters}
 * returns this rank's shards and the replicated parameters, which the optimizer updates. They keep the dtype of the
 * model (the master dtype). They are cast to the compute dtype before they are gathered. A gradient has the shape and
 * dtype of its shard.
 *
 * <p><b>The module's own tensors.</b> While its unit is in use, a sharded parameter of the module refers to the
 * gathered tensor. Otherwise it has no rows. The gathered tensor is one object whose memory is freed and allocated
 * again ({@code TensorStorage}), as in PyTorch. A forward pass saves views of it for the backward pass, such as the
 * transposed weight of a matrix multiplication. These views see the values that are gathered again. So optimizers need
 * the tensors of {@link #namedParameters}, and checkpoints and clipping the methods of this class. They reject the
 * tensors of the module. An optimizer that was created from the module before this container updates nothing.
 *
 * <p><b>Units.</b> A unit is gathered before the forward pass of one of its modules and freed after it. When the
 * backward pass reaches the output of the module, the unit is gathered again. Its backward pass counts as ended when
 * that of the next unit begins, or in {@link #finishGradientSynchronization}. Then its weights are freed and its
 * gradients are reduce-scattered while the next unit computes. A unit must use its parameters only to compute its
 * output. A backward pass with {@link cs336.torch.Backward#createGraph} through a unit fails, because the graph of its
 * gradients would need weights that are freed after the pass.
 *
 * <p><b>Prefetch.</b> The order of units is recorded, so from the second step on the next units are gathered while one
 * computes, up to {@link FsdpSettings#maxGatheredUnits}. A wrong prediction costs time only. All ranks must use the
 * units in the same order. Otherwise {@link ProcessGroup} throws an exception; but if the ranks have used many orders
 * before, Gloo may end the process instead.
 *
 * <p><b>Recomputation.</b> A forward pass during the backward pass, as with activation checkpointing, gathers its unit
 * like any other. If the backward pass of the same unit follows, it stays gathered. If several units are recomputed
 * together, their gradients may arrive after the backward pass of the last one, and are reduced then.
 *
 * <p><b>Initialization.</b> All ranks copy the parameters and buffers of rank 0, frozen ones included.
 * {@link #construct} shards the parameter of each {@link Linear} and {@link Embedding} as soon as it exists, so that
 * these are never all in the memory of one rank. The constructor of this class shards an existing module. Tied weights
 * are one parameter. A parameter that is frozen during construction must stay frozen.
 *
 * <p><b>Gradient accumulation.</b> Several backward passes may precede {@link #finishGradientSynchronization}; each
 * reduces its gradients. {@link #noSync} postpones the reduction, but keeps whole gradients in memory.
 *
 * <p><b>Failed passes.</b> After an exception in a forward or backward pass on some ranks, all ranks call
 * {@link #finishGradientSynchronization} and zero their gradients. In this method a rank runs the collectives of the
 * passes that it has not completed, in the recorded order. A rank without data calls only this method. Both cases need
 * an earlier completed step, and steps with one forward and one backward pass.
 *
 * <p><b>Hybrid sharding (HSDP).</b> With {@link FsdpSettings#withReplicas} the ranks form a {@link DeviceMesh}. Shards
 * are divided within a group of consecutive ranks, such as those of a node, and equal in all groups. Parameters are
 * gathered and gradients reduce-scattered within a group; then only shards of gradients are all-reduced across groups,
 * while further units compute. The subgroups belong to the {@link ProcessGroup} and close with it.
 *
 * <p><b>Hyperparameters.</b> Ranks do not compare what changes no collective, such as the learning rate: all ranks must
 * give their optimizers the same values.
 *
 * <p><b>Exclusive use of the group.</b> From the start of a forward pass until {@link #finishGradientSynchronization},
 * no other collective may use the group or the subgroups of its mesh.
 */
public final class FullyShardedDataParallel implements AutoCloseable {

    private final NnModule module;
    private final KnownParameters known;
    private final DeviceMesh mesh;
    private final ProcessGroup group; // of all ranks
    private final FsdpSettings settings;
    private final Map<String, FsdpParameter> parameters;
    private final List<FsdpParameter> trainable;
    private final List<FsdpUnit> units;
    private final FsdpSchedule schedule;
    private final List<GradientBucket> replicatedGradients;
    private final List<FsdpParameter> replicated; // and trainable
    private final UsedParameters used;
    private final EarlyStepCheck earlyStep;
    private final Consumer<Collection<Tensor>> reductionCheck = this::requireReduced; // optimizers refer to it weakly

    private boolean closed;

    /**
     * Shards an existing module. All ranks call it with the same model. The parameters of the module become shards; the
     * caller closes the module.
     *
     * @throws IllegalArgumentException if the ranks' parameters or buffers differ in number, names, shapes, dtypes or
     *     in which of them require a gradient, or in their settings or units; if one is not a contiguous floating-point
     *     tensor; if none is trainable; if sharded parameters of a unit differ in dtype and there is no compute dtype;
     *     if a sharded module does not exist; or if the number of replicas does not divide the number of ranks
     */
    public FullyShardedDataParallel(NnModule module, ProcessGroup group, FsdpSettings settings) {
        this(FsdpUnits.of(module, group, settings), settings);
    }

    /**
     * Constructs a module and shards it. The parameter of each linear and embedding layer is sharded as soon as it
     * exists, so that these are never all in memory. All other parameters are whole during the construction; afterwards
     * those of the modules that {@link FsdpSettings} names are sharded. All ranks call it with the same constructor.
     *
     * <p>After a layer is created, its weight has only this rank's rows. A constructor that needs the shape of the
     * whole weight takes it from the configuration, or the module is passed to the constructor of this class.
     *
     * @param constructor creates the module on the group's device; it may freeze parameters afterwards. The caller
     *     closes {@link #module}
     * @throws IllegalArgumentException as the constructor of this class, except for layers whose shapes differ between
     *     ranks
     * @throws cs336.distributed.collectives.CollectiveFailure if shapes of layers differ between ranks
     */
    public static FullyShardedDataParallel construct(
            Supplier<? extends NnModule> constructor, ProcessGroup group, FsdpSettings settings) {
        return new FullyShardedDataParallel(FsdpUnits.construct(constructor, group, settings), settings);
    }

    private FullyShardedDataParallel(FsdpUnits sharded, FsdpSettings settings) {
        this.settings = settings;
        module = sharded.module();
        known = new KnownParameters(module);
        mesh = sharded.mesh();
        group = mesh.all();
        parameters = sharded.parameters();
        units = sharded.units();
        schedule = new FsdpSchedule(units, settings.maxGatheredUnits());
        trainable =
                parameters.values().stream().filter(FsdpParameter::isTrainable).toList();
        replicated = trainable.stream().filter(p -> !p.isSharded()).toList();
        replicatedGradients =
                GradientBucket.of(replicated.stream().map(FsdpParameter::master).toList(), Long.MAX_VALUE);
        used = new UsedParameters(trainable.size(), group.device());
        earlyStep =
                new EarlyStepCheck(trainable.stream().map(FsdpParameter::master).toList());
        ShardedParameters.addCheck(reductionCheck);
        for (FsdpUnit unit : units) {
            unit.hook = new BackwardHook(() -> beforeBackward(unit));
        }
        addHooks();
    }

    private void addHooks() {
        Map<NnModule, FsdpUnit> unitOf = new IdentityHashMap<>();
        units.forEach(unit -> unit.modules().forEach(layer -> unitOf.put(layer, unit)));
        for (NnModule layer : module.layers()) {
            FsdpUnit unit = unitOf.get(layer);
            boolean isRoot = layer == module;
            if (unit != null || isRoot) {
                layer.beforeForward(() -> {
                    if (isRoot) {
                        beginForward();
                    }
                    if (unit != null) {
                        beforeForward(unit);
                    }
                });
            }
            if (unit != null) {
                layer.afterForward(output -> schedule.afterForward(unit, output));
            }
        }
        units.forEach(unit -> unit.modules().stream()
                .flatMap(outer -> outer.layers().stream())
                .filter(layer -> !unitOf.containsKey(layer))
                .forEach(unit::rejectSeparateCalls));
    }

    private void beginForward() {
        requireOpen("forward()");
        if (!BackwardHook.isInBackwardPass()) { // else a recomputation
            if (hasPendingGradients() || replicated.size() == trainable.size()) {
                earlyStep.requireNoStep();
            } else {
                earlyStep.reset(); // such as after a backward pass that computed the gradient of the input only
            }
            schedule.beginForward();
        }
    }

    private void beforeForward(FsdpUnit unit) {
        if (OperatorInterceptor.isActive()) {
            throw new IllegalStateException("the forward pass gathers parameters from other ranks, which a compiler"
                    + " cannot record; compile functions inside of the module's layers instead");
        }
        schedule.beforeForward(unit);
    }

    /** Hook of the backward pass, called on its thread when it reaches an output of a unit. */
    private void beforeBackward(FsdpUnit unit) {
        requireOpen("backward()");
        earlyStep.beginBackward();
        schedule.beforeBackward(unit);
    }

    /**
     * Runs the forward pass of the module, whose class defines the shapes of input and output. All ranks call it,
     * because it gathers parameters. A floating-point input is cast to the compute dtype.
     *
     * @throws IllegalStateException after {@link #close}, if an optimizer changed parameters between a backward pass
     *     and {@link #finishGradientSynchronization}, or while a compiler records the call
     */
    public Tensor forward(Tensor input) {
        requireOpen("forward()");
        DType compute = settings.computeDtype();
        if (compute == null || !input.is_floating_point()) {
            return module.forward(input);
        }
        try (var scope = MemoryScope.open()) {
            return scope.escape(module.forward(input.to(compute.scalarType())));
        }
    }

    /** Returns the wrapped module. */
    public NnModule module() {
        return module;
    }

    /**
     * Returns the tensors that this rank's optimizer updates, by parameter name in the order of the module: the rank's
     * shard of each sharded parameter, and each replicated parameter. A shard has no rows if the parameter has too few
     * for all ranks. {@link #close} closes the tensors.
     */
    public Map<String, Tensor> namedParameters() {
        var masters = new LinkedHashMap<String, Tensor>();
        parameters.forEach((name, parameter) -> masters.put(name, parameter.master()));
        return Collections.unmodifiableMap(masters);
    }

    /** Returns the tensors of {@link #namedParameters}. */
    public List<Tensor> parameters() {
        return List.copyOf(namedParameters().values());
    }

    /**
     * Wraps an optimizer for use with a {@link cs336.basics.GradScaler}, which then skips a step on all ranks if a
     * gradient overflows on one, like PyTorch's {@code ShardedGradScaler}. Without it each rank would decide by its own
     * shards.
     *
     * @param optimizer an optimizer of {@link #namedParameters}, which the returned one closes
     */
    public Optimizer agreeing(Optimizer optimizer) {
        return new AgreeingOptimizer(optimizer, group);
    }

    /**
     * Gathers the parameters of all ranks, in the master dtype. All ranks call it.
     *
     * @return whole parameters by name, in the caller's memory scope
     */
    public Map<String, Tensor> gatherParameters() {
        requireOpen("gatherParameters()");
        var whole = new LinkedHashMap<String, Tensor>();
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            parameters.forEach((name, parameter) -> whole.put(
                    name,
                    scope.escape(
                            parameter.gather(mesh.shards(), parameter.master().detach()))));
        }
        return whole;
    }

    /**
     * Gathers the parameters of all ranks on rank 0 only, one after another, and adds that rank's persistent buffers:
     * the {@linkplain NnModule#stateDict state dict} of the whole module. All ranks call it.
     *
     * @return on rank 0 whole tensors by name, on the CPU in the caller's memory scope; on the other ranks an empty map
     */
    public Map<String, Tensor> wholeStateDict() {
        requireOpen("wholeStateDict()");
        return state().wholeStateDict();
    }

    /**
     * Gathers the optimizer state of all ranks in the form of a single process. All ranks call it.
     *
     * @param optimizer an optimizer of {@link #namedParameters}
     * @return on rank 0 tensors on the CPU in the caller's memory scope; on the other ranks an empty map
     */
    public Map<String, Tensor> wholeState(Optimizer optimizer) {
        requireOpen("wholeState()");
        return state().wholeState(optimizer);
    }

    /**
     * Copies this rank's rows of whole parameters, and the persistent buffers. Values are converted to the device and
     * dtype of the tensor that they replace. There is no communication, so all ranks call it with the same values.
     *
     * @param whole a tensor for each name of the module's {@linkplain NnModule#stateDict state dict}
     * @throws IllegalArgumentException if a tensor is missing, a name is unknown, or a shape differs; then nothing
     *     changes
     */
    public void load(Map<String, Tensor> whole) {
        requireOpen("load()");
        Objects.requireNonNull(whole, "whole must not be null");
        Map<String, Tensor> buffers = ModuleTensors.persistentBuffers(module);
        for (String given : whole.keySet()) {
            if (!parameters.containsKey(given) && !buffers.containsKey(given)) {
                throw new IllegalArgumentException("there is no parameter or persistent buffer " + given);
            }
        }
        parameters.forEach(
                (name, parameter) -> Tensors.requireShape("parameter " + name, whole.get(name), parameter.shape()));
        buffers.forEach(
                (name, buffer) -> Tensors.requireShape("buffer " + name, whole.get(name), Tensors.shape(buffer)));
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            parameters.forEach((name, parameter) -> parameter.load(whole.get(name)));
            buffers.forEach((name, buffer) -> buffer.copy_(whole.get(name)));
        }
    }

    private FsdpState state() {
        return new FsdpState(mesh, parameters, ModuleTensors.persistentBuffers(module));
    }

    /** Copies the buffers of rank 0 to all ranks. All ranks call it, between training steps. */
    public void broadcastBuffers() {
        requireOpen("broadcastBuffers()");
        ModuleTensors.broadcast(group, module.namedBuffers());
    }

    /**
     * Saves parameters, persistent buffers and optimizer state in one file, which a model and an optimizer without
     * shards can load too ({@link Checkpoint#load(Path, Map, Optimizer)}). Rank 0 holds them in host memory. All ranks
     * call it.
     *
     * @param optimizer an optimizer of {@link #namedParameters}
     * @param metadata texts to store in the file; the key {@code optimizer} is reserved
     * @throws IOException on every rank, if the file cannot be written
     * @throws IllegalArgumentException if {@code metadata} contains the reserved key
     */
    public void save(Path file, Optimizer optimizer, Map<String, String> metadata) throws IOException {
        requireOpen("save()");
        state().save(file, optimizer, metadata);
    }

    /**
     * Saves the shards of each rank in a separate file, without communication of tensors. With HSDP only the ranks of
     * the first replica write. All ranks call it. The files of an earlier save in the folder are replaced one by one,
     * so an interrupted save leaves a folder that cannot be loaded: use a new folder for each save.
     *
     * @param folder a folder on a file system that all ranks share; created if it does not exist
     * @param optimizer an optimizer of {@link #namedParameters}
     * @param metadata texts to store; the keys {@code optimizer}, {@code ranks} and {@code save} are reserved
     * @throws IOException on every rank, if a file cannot be written
     * @throws IllegalArgumentException if {@code metadata} contains a reserved key
     */
    public void saveShards(Path folder, Optimizer optimizer, Map<String, String> metadata) throws IOException {
        requireOpen("saveShards()");
        state().saveShards(folder, optimizer, metadata);
    }

    /**
     * Loads a file of {@link #save} or of an unsharded {@link Checkpoint}, or a folder of {@link #saveShards}, saved
     * with any number of ranks. A folder must have been saved with the same sharded modules. All ranks call it; each
     * reads its own rows.
     *
     * @param optimizer an optimizer of {@link #namedParameters}
     * @return the stored texts
     * @throws IOException on every rank, if a file cannot be read
     * @throws IllegalArgumentException on every rank, if names, shapes or dtypes differ, the state is that of another
     *     kind of optimizer, or the files of a folder are of different saves; then nothing changes
     */
    public Map<String, String> load(Path source, Optimizer optimizer) throws IOException {
        requireOpen("load()");
        return state().load(source, optimizer);
    }

    /**
     * Discards all gradients, including those that {@link #noSync} has accumulated and those that are being reduced.
     * All ranks call it, because it completes these reductions.
     */
    public void zeroGrad() {
        requireOpen("zeroGrad()");
        schedule.discardReductions();
        parameters.values().forEach(FsdpParameter::zeroGrad);
        earlyStep.reset();
    }

    private boolean hasPendingGradients() {
        return earlyStep.hasBegun() && schedule.hasPendingGradients();
    }

    /** Checks for an optimizer that all gradients are in the shards, if it updates some of them. */
    private void requireReduced(Collection<Tensor> ofOptimizer) {
        if (!closed && hasPendingGradients() && updatesShards(ofOptimizer)) {
            throw new IllegalStateException("gradients are not reduced yet; call finishGradientSynchronization() before"
                    + " the optimizer, or zeroGrad() of the container to discard them");
        }
    }

    private boolean updatesShards(Collection<Tensor> ofOptimizer) {
        try (var scope = MemoryScope.open()) {
            Set<Long> updated = ofOptimizer.stream()
                    .map(tensor -> tensor.unsafeGetTensorImpl().address())
                    .collect(Collectors.toSet());
            return trainable.stream()
                    .anyMatch(parameter -> updated.contains(
                            parameter.master().unsafeGetTensorImpl().address()));
        }
    }

    /**
     * Returns the global L2 norm of the gradients of the whole model. All ranks call it after
     * {@link #finishGradientSynchronization}.
     *
     * @return equal on all ranks; a 0-dimensional tensor in the caller's memory scope
     * @throws IllegalStateException if gradients are not reduced yet, or after {@link #close}
     */
    public Tensor gradientNorm() {
        requireOpen("gradientNorm()");
        if (!schedule.isReduced()) {
            throw new IllegalStateException(
                    "gradients are not reduced yet; call finishGradientSynchronization() first");
        }
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor squares = squaredNorm(
                    trainable.stream().filter(FsdpParameter::isSharded).toList());
            group.allReduce(squares, Reduction.SUM); // of all replicas, so that rounding is equal on all ranks
            squares.div_(new Scalar(settings.replicas())).add_(squaredNorm(replicated));
            return scope.escape(
                    ShardedNorm.root(squares, DType.of(trainable.get(0).master())));
        }
    }

    /**
     * Clips the gradients by the global norm of the whole model, like {@link GradientClipping#clipByGlobalNorm}. All
     * ranks call it after {@link #finishGradientSynchronization}.
     *
     * @param maxNorm above 0
     * @return the norm of all gradients before clipping, equal on all ranks; a 0-dimensional tensor in the caller's
     *     memory scope
     * @throws IllegalArgumentException if {@code maxNorm} is not above 0
     * @throws IllegalStateException as {@link #gradientNorm}
     */
    public Tensor clipGradients(double maxNorm) {
        requireOpen("clipGradients()");
        GradientClipping.requireAboveZero(maxNorm);
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor norm = gradientNorm();
            GradientClipping.clip(parameters(), norm, maxNorm);
            return scope.escape(norm);
        }
    }

    private Tensor squaredNorm(List<FsdpParameter> some) {
        return ShardedNorm.squared(some.stream().map(FsdpParameter::master).toList(), group.device());
    }

    /** Returns the number of units. */
    public int unitCount() {
        return units.size();
    }

    /** Returns the largest number of units whose gathered parameters were in this rank's memory at once. */
    public int peakGatheredUnits() {
        return schedule.peakUnits();
    }

    /** Returns the largest number of bytes of gathered parameters, with padding, that this rank held at once. */
    public long peakGatheredBytes() {
        return schedule.peakBytes();
    }

    /**
     * Starts the remaining reductions and waits for the averaged gradients of this rank's shards. With Gloo the host
     * blocks; with NCCL the current stream waits, so the optimizer's step can be queued at once. All ranks call it
     * after the last backward pass of a step, before the optimizer.
     *
     * @throws IllegalStateException inside {@link #noSync}, if this, the module or one of its layers is closed, or if a
     *     parameter was added or unfrozen after construction
     */
    public void finishGradientSynchronization() {
        requireOpen("finishGradientSynchronization()");
        known.requireNoOthers();
        parameters.values().forEach(FsdpParameter::requireStillFrozen);
        if (!schedule.isSynchronizing()) {
            throw new IllegalStateException(
                    "finishGradientSynchronization() was called inside noSync(); close its scope first");
        }
        try (var range = ProfilerRange.of("gradient synchronization");
                var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            schedule.endStep();
            endReduction();
        }
        earlyStep.reset();
    }

    /** Reduces the gradients of replicated parameters, and waits for those that are being reduced among replicas. */
    private void endReduction() {
        replicated.forEach(FsdpParameter::addReplicated);
        boolean[] present = new boolean[trainable.size()];
        for (int i = 0; i < present.length; i++) {
            present[i] = trainable.get(i).testAndClearPresent()
                    || trainable.get(i).master().grad().defined()
                            && !trainable.get(i).isSharded();
        }
        replicated.forEach(FsdpParameter::expectGradient);
        List<String> names = replicated.stream().map(FsdpParameter::name).toList();
        boolean[] collected = new boolean[replicated.size()];
        List<PendingCollective> reductions = new ArrayList<>();
        for (GradientBucket bucket : replicatedGradients) {
            reductions.add(bucket.start(group, bucket.collect(names, collected)));
        }
        reductions.add(used.start(group, present));
        units.forEach(FsdpUnit::addReduced);
        reductions.forEach(PendingCollective::await);
        used.unused(present).forEach(i -> trainable.get(i).resetCreatedGradient());
        trainable.forEach(FsdpParameter::endStep);
    }

    /**
     * Lets backward passes accumulate gradients locally, without communication, until the returned scope is closed:
     *
     * <pre>{@code
     * try (var accumulation = fsdp.noSync()) {
     *     loss(first).backward();
     * }
     * loss(second).backward();
     * fsdp.finishGradientSynchronization();
     * }</pre>
     *
     * @throws IllegalStateException if such a scope is open, or this is closed
     */
    public NoSync noSync() {
        requireOpen("noSync()");
        if (!schedule.isSynchronizing()) {
            throw new IllegalStateException("noSync() was called inside noSync()");
        }
        schedule.setSynchronizing(false);
        return new NoSync(() -> schedule.setSynchronizing(true));
    }

    private void requireOpen(String call) {
        if (closed) {
            throw new IllegalStateException(call + " was called on a closed container; create a new one");
        }
    }

    /** Frees shards and gathered parameters, and removes the hooks. The sharded parameters of the module stay empty. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        module.layers().forEach(NnModule::removeActions);
        if (group.failure() == null) {
            schedule.discardReductions();
            units.forEach(FsdpUnit::free);
        }
        units.forEach(FsdpUnit::close);
        replicatedGradients.forEach(GradientBucket::close);
        used.close();
    }
}
