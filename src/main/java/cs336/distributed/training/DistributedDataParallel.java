package cs336.distributed.training;

import cs336.basics.NnModule;
import cs336.bench.ArgumentCheck;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.torch.DType;
import cs336.torch.GradientHooks;
import cs336.torch.MemoryScope;
import cs336.torch.ProfilerRange;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Data-parallel training of one model: each rank computes gradients on its own fraction of the batch, and this
 * container averages them over ranks, so that all ranks take the same step.
 *
 * <pre>{@code
 * var ddp = new DistributedDataParallel(model, group, Strategy.bucketed(25));
 * for (Batch batch : localBatches) {
 *     try (var scope = MemoryScope.open()) {
 *         Losses.crossEntropy(ddp.forward(batch.inputs()), batch.targets()).backward();
 *         ddp.finishGradientSynchronization();
 *         optimizer.step();
 *         optimizer.zeroGrad();
 *     }
 * }
 * }</pre>
 *
 * <p><b>Initialization.</b> All ranks copy the parameters and buffers of rank 0, frozen ones included. Tied weights are
 * one parameter.
 *
 * <p><b>Buffers.</b> Each rank then changes its own buffers. {@link #broadcastBuffers} copies those of rank 0, which
 * PyTorch's DDP does before each forward pass.
 *
 * <p><b>Order of collectives.</b> Collectives are matched by order alone, so all ranks must start them in the same
 * order. Strategies that overlap use the reverse order of the parameters in the first step, and from then on the order
 * in which rank 0's gradients became ready in that step; a gradient that is ready early waits for its turn. The other
 * strategies keep one order.
 *
 * <p><b>First step.</b> Ranks compare their collectives ({@link ProcessGroup}), so a fast rank waits for the slowest
 * one. Its backward pass waits too. Otherwise the gradients of many layers would accumulate in memory in addition to
 * their buckets.
 *
 * <p><b>Exclusive use of the group.</b> A {@linkplain CommunicationThread separate thread} starts the collectives
 * during the backward pass. From the start of a backward pass until {@link #finishGradientSynchronization} no other
 * collective may use the group, because its position among these collectives would differ between ranks. A second
 * container that trains at the same time needs a group of its own ({@link ProcessGroup#split}).
 *
 * <p><b>Unused parameters.</b> A rank on which a parameter has no gradient contributes zeros. A parameter that some
 * ranks use gets the sum of their gradients divided by the number of all ranks. A parameter that no rank uses keeps no
 * gradient, as in a single process. A rank without data calls only {@link #finishGradientSynchronization}.
 *
 * <p><b>Gradient accumulation.</b> One backward pass may cover several forward passes. To accumulate gradients over
 * several backward passes, run all but the last in {@link #noSync}: strategies that {@linkplain Strategy#overlaps
 * overlap} must know which one is the last.
 *
 * <p><b>Compiled steps.</b> A training step whose passes are compiled reports its gradients through
 * {@link #gradientsReady}.
 *
 * <p><b>Failed backward pass.</b> After an exception on some ranks, all ranks call
 * {@link #finishGradientSynchronization} and zero their gradients. The next step then works as usual.
 *
 * <p><b>Uneven batches.</b> The mean over ranks of per-rank means equals the mean over all examples only if all ranks
 * have the same number of examples. Otherwise each rank multiplies its loss by {@link #weight}.
 */
public final class DistributedDataParallel implements AutoCloseable {
    private final NnModule module;
    private final ProcessGroup group;
    private final KnownParameters known;
    private final List<String> names = new ArrayList<>();
    private final List<Tensor> parameters = new ArrayList<>(); // trainable, without duplicates
    private final Map<String, Tensor> frozen = new HashMap<>();
    private final Map<Long, Integer> indices = new HashMap<>(); // of the parameters, by address
    private final List<GradientCollective> collectives;
    private final GradientHooks hooks; // null unless collectives overlap with the backward pass
    private final CommunicationThread thread; // likewise
    private final GradientHooks checkHooks; // null if they overlap
    private final EarlyStepCheck earlyStep;
    private final UsedParameters used;

    private final int[] collectiveOf; // by parameter
    private final boolean[] ready; // by parameter, in the current backward pass
    private final boolean[] present; // by parameter: whether it had a gradient
    private final int[] missing; // by collective: number of gradients that are not ready
    private final List<Integer> completed =
            new ArrayList<>(); // collectives in the order in which their gradients were ready
    private final List<PendingCollective> pending = new ArrayList<>();
    private int[] order; // in which collectives start
    private int started; // number of collectives started in this step
    private boolean orderIsFinal;
    private long checkedPass; // number of the backward pass before which no optimizer has stepped
    private boolean mustBeZeroed; // whether gradients may be the results of the last step
    private boolean startsHere; // whether gradientsReady() starts the collectives of this step on its thread
    private boolean synchronizing = true;
    private boolean closed;

    /**
     * Broadcasts the parameters and buffers of rank 0, and registers hooks for backward passes. All ranks call it with
     * the same model. The caller closes the module.
     *
     * @throws IllegalArgumentException if the ranks' parameters or buffers differ in number, names, shapes, dtypes or
     *     in which of them require a gradient, or their strategies differ; if one is not contiguous; or if none is
     *     trainable
     */
    public DistributedDataParallel(NnModule module, ProcessGroup group, Strategy strategy) {
        this(module, group, strategy.toString(), parameters -> collectives(strategy, parameters), strategy.overlaps());
    }

    /**
     * Creates a container for ZeRO stage 1: gradients are reduce-scattered to the rank whose optimizer updates them, in
     * the buckets of the optimizer. Afterwards {@code grad()} of a parameter is meaningful to that optimizer only:
     * outside of this rank's shard it holds gradients of this rank. So {@code zeroGrad()} must follow each step, before
     * the next backward pass; to accumulate gradients, use {@link #noSync}. After parameters are added to the
     * optimizer, a new container must be created.
     *
     * @param optimizer an optimizer with {@link Sharding#allGather} and all trainable parameters
     * @throws IllegalArgumentException also if the optimizer has another sharding or lacks a parameter
     */
    public DistributedDataParallel(NnModule module, ProcessGroup group, ShardedOptimizer<?> optimizer) {
        this(module, group, "ZeRO stage 1", optimizer::gradientCollectives, true);
    }

    private DistributedDataParallel(
            NnModule module,
            ProcessGroup group,
            String strategy,
            Function<List<Tensor>, List<GradientCollective>> layout,
            boolean overlaps) {
        this.module = module;
        this.group = group;
        known = new KnownParameters(module);
        SameParameters.require(group, List.of(strategy), "strategy", "strategy");
        Map<String, Tensor> tensors = ModuleTensors.of(module);
        SameParameters.require(group, tensors);
        ModuleTensors.broadcast(group, tensors);
        module.namedParameters().forEach((name, parameter) -> {
            long address = parameter.unsafeGetTensorImpl().address();
            if (parameter.requires_grad() && indices.putIfAbsent(address, parameters.size()) == null) {
                names.add(name);
                parameters.add(parameter);
            } else if (!parameter.requires_grad()) {
                frozen.put(name, parameter);
            }
        });
        if (parameters.isEmpty()) {
            throw new IllegalArgumentException("module must have a trainable parameter");
        }
        collectives = layout.apply(parameters);
        collectiveOf = new int[parameters.size()];
        for (int c = 0; c < collectives.size(); c++) {
            for (int member : collectives.get(c).members()) {
                collectiveOf[member] = c;
            }
        }
        missing = new int[collectives.size()];
        ready = new boolean[parameters.size()];
        present = new boolean[parameters.size()];
        order = IntStream.range(0, collectives.size()).toArray();
        used = new UsedParameters(parameters.size(), group.device());
        earlyStep = new EarlyStepCheck(parameters);
        begin();
        thread = overlaps ? new CommunicationThread(group.device()) : null;
        hooks = overlaps ? GradientHooks.of(parameters, this::requireFirstPass, this::ready) : null;
        checkHooks = overlaps ? null : GradientHooks.of(parameters, this::requireNoStep, parameter -> {});
    }

    /** Runs the forward pass of the module, whose class defines the shapes of input and output. */
    public Tensor forward(Tensor input) {
        return module.forward(input);
    }

    /** Returns the module whose gradients are averaged. */
    public NnModule module() {
        return module;
    }

    /** Returns the group of ranks that averages gradients. */
    public ProcessGroup group() {
        return group;
    }

    /** Returns the number of collectives that average gradients in a step. */
    public int collectivesPerStep() {
        return collectives.size();
    }

    /**
     * Starts the remaining collectives and waits for the averaged gradients. With Gloo the host blocks; with NCCL the
     * current stream waits, so the optimizer's step can be queued at once. All ranks call it after the last backward
     * pass of a step, before the optimizer.
     *
     * @throws IllegalStateException inside {@link #noSync}; if this, the module or one of its layers is closed; if a
     *     parameter was added or unfrozen after construction; if a gradient is sparse; or with ZeRO stage 1, if
     *     gradients of the last step were not zeroed
     */
    public void finishGradientSynchronization() {
        requireSynchronizing("finishGradientSynchronization()");
        known.requireNoOthers();
        frozen.forEach(SameParameters::requireFrozen);
        try (var range = ProfilerRange.of("gradient synchronization");
                var scope = MemoryScope.open()) {
            if (hooks != null) {
                hooks.flush();
                requireZeroed();
                thread.drain();
            }
            while (started < order.length) {
                start(order[started++]);
            }
            await(used.start(group, present));
            used.unused(present).forEach(i -> parameters.get(i).mutable_grad().reset());
            if (hooks != null && !orderIsFinal) {
                adoptOrder();
            }
        } finally {
            begin();
        }
        mustBeZeroed = true;
    }

    /**
     * Returns the parameters of each collective that may start before the backward pass ends; empty if the strategy
     * does not {@linkplain Strategy#overlaps overlap}.
     */
    public List<List<Tensor>> overlappingBuckets() {
        if (hooks == null) {
            return List.of();
        }
        return collectives.stream()
                .map(collective -> Arrays.stream(collective.members())
                        .mapToObj(parameters::get)
                        .toList())
                .toList();
    }

    /**
     * Reports gradients that autograd did not accumulate, such as those that a CUDA graph computes: they are in
     * {@code grad()} and will not change before {@link #finishGradientSynchronization}. Starts each collective whose
     * gradients are all ready, on this thread. The collective waits for the work that is queued on the current stream.
     * Does nothing if the strategy does not {@linkplain Strategy#overlaps overlap}.
     *
     * @param ready parameters, each once in a step; those that this container does not average are ignored
     * @throws IllegalStateException inside {@link #noSync}, after {@link #close}, or if a parameter was reported before
     *     in this step
     */
    public void gradientsReady(List<Tensor> ready) {
        requireSynchronizing("gradientsReady()");
        if (hooks == null) {
            return;
        }
        requireZeroed();
        for (Tensor tensor : ready) {
            Integer parameter = indices.get(tensor.unsafeGetTensorImpl().address());
            if (parameter != null) {
                requireFirstPass(parameter);
                markReady(parameter);
            }
        }
        startsHere = true;
        while (hasNextCollective()) {
            start(order[started++]);
        }
    }

    /**
     * Lets backward passes accumulate gradients locally, without communication, until the returned scope is closed:
     *
     * <pre>{@code
     * try (var accumulation = ddp.noSync()) {
     *     loss(first).backward();
     * }
     * loss(second).backward();
     * ddp.finishGradientSynchronization();
     * }</pre>
     *
     * @throws IllegalStateException if such a scope is open, collectives have started in this step, or this is closed
     */
    public NoSync noSync() {
        requireOpen("noSync()");
        if (!synchronizing) {
            throw new IllegalStateException("noSync() was called inside noSync()");
        }
        if (hooks != null) {
            hooks.flush();
        }
        if (started > 0) {
            throw new IllegalStateException("noSync() was called after collectives of this step started;"
                    + " call finishGradientSynchronization() first");
        }
        synchronizing = false;
        return new NoSync(this::endNoSync);
    }

    private void endNoSync() {
        if (hooks != null) {
            hooks.flush();
        }
        synchronizing = true;
    }

    /**
     * Returns the factor by which this rank multiplies its mean loss, so that the averaged gradient is that of the mean
     * over all examples: n·W ÷ N if this rank has n of the N examples of W ranks. All ranks call it before the backward
     * pass. It runs an all-reduce of one number and reads the result on the host, so it should be used for uneven
     * batches only.
     *
     * @param examples n, at least 0
     * @throws IllegalArgumentException if it is negative, or 0 on all ranks
     */
    public double weight(long examples) {
        ArgumentCheck.atLeast("examples", 0, examples);
        try (var scope = MemoryScope.open()) {
            Tensor total = torch.full(
                    new long[] {1},
                    new Scalar((double) examples),
                    group.device().options(DType.FLOAT64));
            group.allReduce(total, Reduction.SUM);
            double all = total.item_double();
            if (all == 0) {
                throw new IllegalArgumentException("examples must be at least 1 on some rank, not 0 on all ranks");
            }
            return examples * group.size() / all;
        }
    }

    /** Copies the buffers of rank 0 to all ranks. All ranks call it, but not while gradients are being averaged. */
    public void broadcastBuffers() {
        requireOpen("broadcastBuffers()");
        ModuleTensors.broadcast(group, module.namedBuffers());
    }

    /** Removes the hooks and frees the buckets. The module and gradients that are in a bucket remain valid. */
    @Override
    public void close() {
        closed = true;
        if (hooks != null) {
            hooks.close();
            thread.close();
        } else {
            checkHooks.close();
        }
        collectives.forEach(GradientCollective::close);
        used.close();
    }

    private void requireOpen(String call) {
        if (closed) {
            throw new IllegalStateException(call + " was called on a closed container; create a new one");
        }
    }

    private void requireSynchronizing(String call) {
        requireOpen(call);
        if (!synchronizing) {
            throw new IllegalStateException(call + " was called inside noSync(); close its scope first");
        }
    }

    private static List<GradientCollective> collectives(Strategy strategy, List<Tensor> parameters) {
        int n = parameters.size();
        if (strategy instanceof Strategy.Naive) {
            return single(IntStream.range(0, n), parameters);
        }
        if (strategy instanceof Strategy.Overlapped) {
            return single(IntStream.range(0, n).map(i -> n - 1 - i), parameters);
        }
        long most = strategy instanceof Strategy.Bucketed bucketed ? bucketed.bytes() : Long.MAX_VALUE;
        return List.copyOf(GradientBucket.of(parameters, most));
    }

    private static List<GradientCollective> single(IntStream indices, List<Tensor> parameters) {
        return indices.mapToObj(i -> (GradientCollective) new SingleGradient(i, parameters.get(i)))
                .toList();
    }

    private void begin() {
        Arrays.fill(ready, false);
        for (int c = 0; c < missing.length; c++) {
            missing[c] = collectives.get(c).members().length;
        }
        completed.clear();
        pending.clear();
        started = 0;
        startsHere = false;
        earlyStep.reset();
    }

    /**
     * Hook of a strategy that does not overlap, called before a backward pass changes a gradient. Several passes may
     * accumulate gradients, but no optimizer may use them before they are averaged.
     */
    private void requireNoStep(int parameter) {
        long pass = torch.get_current_graph_task_id();
        if (synchronizing && pass != checkedPass) {
            earlyStep.requireNoStep();
            earlyStep.beginBackward();
            checkedPass = pass;
        }
    }

    /**
     * Hook of the backward pass, called on its thread before it changes a gradient. A second pass must not change a
     * gradient, because the communication thread may be reading it.
     */
    private void requireFirstPass(int parameter) {
        requireZeroed();
        if (synchronizing && ready[parameter]) {
            throw new IllegalStateException("a second backward pass reached parameter " + names.get(parameter)
                    + " before finishGradientSynchronization(); run all but the last one of a step in noSync()");
        }
    }

    /** Checks that no gradient is a result of the last step that cannot be averaged again. */
    private void requireZeroed() {
        if (mustBeZeroed) {
            collectives.forEach(collective -> collective.requireZeroed(names));
            mustBeZeroed = false;
        }
    }

    /** Hook of the backward pass, called on its thread when a gradient is ready. */
    private void ready(int parameter) {
        if (!synchronizing) {
            return;
        }
        markReady(parameter);
        while (hasNextCollective()) {
            if (started == 0) {
                thread.useCurrentStream();
            }
            int next = order[started++];
            thread.submit(() -> start(next));
            if (!orderIsFinal) {
                thread.awaitAllBut(1);
            }
        }
    }

    private void markReady(int parameter) {
        ready[parameter] = true;
        int collective = collectiveOf[parameter];
        if (--missing[collective] == 0) {
            completed.add(collective);
        }
    }

    /** Returns whether all gradients of the next collective in the agreed order are ready. */
    private boolean hasNextCollective() {
        return started < order.length && missing[order[started]] == 0;
    }

    private void start(int collective) {
        try (var scope = MemoryScope.open()) {
            Tensor gradients = collectives.get(collective).collect(names, present);
            if (hooks == null) {
                group.allReduce(gradients, Reduction.AVERAGE);
            } else {
                pending.add(collectives.get(collective).start(group, gradients));
            }
        }
    }

    /**
     * Waits for all pending collectives. With NCCL they run one after another, so the caller waits for the last one
     * only. The communication thread, which has started the others, releases them at the same time.
     */
    private void await(PendingCollective last) {
        List<PendingCollective> others = List.copyOf(pending);
        if (thread != null && !startsHere && group.backend() == CollectiveBackend.NCCL) {
            thread.submit(() -> others.forEach(PendingCollective::await));
        } else {
            others.forEach(PendingCollective::await);
        }
        last.await();
    }

    /**
     * Adopts the order in which the gradients of rank 0's collectives became ready; collectives that were never ready
     * come last.
     */
    private void adoptOrder() {
        long[] observed = IntStream.concat(completed.stream().mapToInt(Integer::intValue), Arrays.stream(order))
                .distinct()
                .asLongStream()
                .toArray();
        Tensor numbers = Tensors.of(observed, observed.length).to(group.device().toTorch(), DType.INT64.scalarType());
        group.broadcast(numbers, 0);
        double[] adopted = Tensors.toDoubles(numbers);
        order = Arrays.stream(adopted).mapToInt(m -> (int) m).toArray();
        orderIsFinal = true;
    }
}
