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
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Trains one model on all ranks, each with its own part of the batch: averages the ranks' gradients, so that all of
 * them take the same step.
 *
 * <pre>{@code
 * var ddp = new DistributedDataParallel(model, group, Strategy.bucketed(25));
 * for (Batch batch : share) {
 *     try (var scope = MemoryScope.open()) {
 *         Losses.crossEntropy(ddp.forward(batch.inputs()), batch.targets()).backward();
 *         ddp.finishGradientSynchronization();
 *         optimizer.step();
 *         optimizer.zeroGrad();
 *     }
 * }
 * }</pre>
 *
 * <p><b>At the start</b> all ranks take over rank 0's parameters and buffers, frozen ones too. Of tied weights there is
 * one.
 *
 * <p><b>Order.</b> Collectives are matched by their order alone, so all ranks have to start them in the same one,
 * whatever happens to be ready first on each. In the first step that is the reverse of the parameters' order; meanwhile
 * rank 0 notes in which order they were ready, and from the second step on all ranks send in that one. What is ready
 * before its turn waits for it.
 *
 * <p><b>The first step</b> is also where ranks make sure that they send the same ({@link ProcessGroup}), for which the
 * one that is ahead waits. Its backward pass waits with it: otherwise the gradients of many layers would pile up beside
 * their buckets.
 *
 * <p>What is sent during the backward pass is sent by a thread of its own, so that sending does not hold the host up.
 * So from the beginning of a backward pass until {@link #finishGradientSynchronization} the group belongs to this
 * container: other collectives would come between its own, on each rank at another place.
 *
 * <p><b>Parameters that a step does not use.</b> A rank on which one has no gradient sends zeros. So a parameter that
 * some ranks use gets the sum over these divided by the number of all ranks; one that no rank uses is left without a
 * gradient, as it is in one process. A rank with no data at all calls {@link #finishGradientSynchronization} alone.
 *
 * <p><b>Several passes.</b> A backward pass may run back through any number of forward passes. If several backward
 * passes are to make one gradient, all but the last run in {@link #noSync}; strategies that
 * {@linkplain Strategy#overlaps overlap} must know which is the last.
 *
 * <p><b>A backward pass that fails,</b> on one rank or all, can be given up where its exception is caught: all ranks go
 * on to {@link #finishGradientSynchronization}, then reset their gradients, and the next step is as any other.
 *
 * <p><b>Batches that do not divide evenly.</b> The mean over ranks of means over examples is the mean over all examples
 * only where all ranks have as many. Otherwise each rank multiplies its loss by {@link #weight}.
 */
public final class DistributedDataParallel implements AutoCloseable {
    private final NnModule module;
    private final ProcessGroup group;
    private final List<String> names = new ArrayList<>();
    private final List<Tensor> parameters = new ArrayList<>(); // those that learn, each once
    private final List<GradientCollective> messages;
    private final GradientHooks hooks; // null where nothing is sent during the backward pass
    private final CommunicationThread sending; // likewise
    private final Tensor ones; // [parameters]
    private final Tensor uses; // [parameters]: whether any rank has a gradient

    private final int[] messageOf; // of each parameter
    private final boolean[] ready; // of each parameter, in the backward pass that runs
    private final boolean[] present; // of each parameter: whether it had a gradient when it was sent
    private final int[] missing; // of each message: members that are not ready
    private final List<Integer> filled = new ArrayList<>(); // messages in the order in which they were complete
    private final List<PendingCollective> pending = new ArrayList<>();
    private int[] order; // in which messages are sent
    private int sent; // how many of them are
    private boolean orderIsLearned;
    private boolean synchronising = true;
    private boolean closed;

    /**
     * Takes over rank 0's parameters and buffers, and listens to backward passes from now on. All ranks call it, for
     * the same model. The module stays the caller's.
     *
     * @throws IllegalArgumentException if the ranks' parameters differ in number, names, shapes, types or in which of
     *     them learn, or one is not contiguous, in which case the message names the parameter; or none learns
     */
    public DistributedDataParallel(NnModule module, ProcessGroup group, Strategy strategy) {
        this(module, group, parameters -> messages(strategy, parameters), strategy.overlaps());
    }

    /**
     * The same for ZeRO's stage 1: gradients are not averaged on all ranks, but each where the optimizer has the rank
     * that updates it, and nowhere else. Buckets are the optimizer's. What {@code grad()} of a parameter holds
     * afterwards is for that optimizer alone. A wrapper must be made anew when parameters are added to it.
     *
     * @param optimizer with {@link Sharding#allGather}, and with all parameters that learn
     * @throws IllegalArgumentException also if it is another optimizer
     */
    public DistributedDataParallel(NnModule module, ProcessGroup group, ShardedOptimizer<?> optimizer) {
        this(module, group, optimizer::gradients, true);
    }

    private DistributedDataParallel(
            NnModule module,
            ProcessGroup group,
            Function<List<Tensor>, List<GradientCollective>> layout,
            boolean overlaps) {
        this.module = module;
        this.group = group;
        SameParameters.require(group, module.namedParameters());
        broadcast(module.namedParameters());
        broadcast(module.namedBuffers());
        Set<Long> seen = new HashSet<>();
        module.namedParameters().forEach((name, parameter) -> {
            if (parameter.requires_grad()
                    && seen.add(parameter.unsafeGetTensorImpl().address())) {
                names.add(name);
                parameters.add(parameter);
            }
        });
        if (parameters.isEmpty()) throw new IllegalArgumentException("module must have a parameter that learns");
        messages = layout.apply(parameters);
        messageOf = new int[parameters.size()];
        for (int m = 0; m < messages.size(); m++) {
            for (int member : messages.get(m).members()) messageOf[member] = m;
        }
        missing = new int[messages.size()];
        ready = new boolean[parameters.size()];
        present = new boolean[parameters.size()];
        order = IntStream.range(0, messages.size()).toArray();
        try (var scope = MemoryScope.open()) {
            long[] all = {parameters.size()};
            ones = MemoryScope.keep(torch.ones(all, group.device().options(DType.FLOAT32)));
            uses = MemoryScope.keep(torch.ones(all, group.device().options(DType.FLOAT32)));
        }
        begin();
        sending = overlaps ? new CommunicationThread(group.device()) : null;
        hooks = overlaps ? GradientHooks.of(parameters, this::ready) : null;
    }

    /** Applies the module. */
    public Tensor forward(Tensor input) {
        return module.forward(input);
    }

    /** How many all-reduces of gradients a step takes. */
    public int collectivesPerStep() {
        return messages.size();
    }

    /**
     * Waits until gradients are averaged: for the host with Gloo; with NCCL for the current stream, so that the
     * optimizer's step can be queued at once. Sends what the backward pass has not sent. All ranks call it after the
     * (last) backward pass of a step, before the optimizer.
     *
     * @throws IllegalStateException inside {@link #noSync}, or after {@link #close}
     */
    public void finishGradientSynchronization() {
        requireOpen("finishGradientSynchronization()");
        if (!synchronising) {
            throw new IllegalStateException("finishGradientSynchronization() came inside noSync(); close that first");
        }
        try (var range = ProfilerRange.of("gradient synchronization");
                var scope = MemoryScope.open()) {
            if (hooks != null) {
                hooks.flush();
                sending.drain();
            }
            while (sent < order.length) send(order[sent++]);
            await(shareUses());
            dropGradientsOfUnused();
            if (hooks != null && !orderIsLearned) learnOrder();
        }
        begin();
    }

    /**
     * Lets backward passes add up gradients on each rank by itself until the scope closes:
     *
     * <pre>{@code
     * try (var accumulation = ddp.noSync()) {
     *     loss(first).backward();
     * }
     * loss(second).backward();
     * ddp.finishGradientSynchronization();
     * }</pre>
     *
     * @throws IllegalStateException if such a scope is open, gradients are on their way, or this is closed
     */
    public NoSync noSync() {
        requireOpen("noSync()");
        if (!synchronising) throw new IllegalStateException("noSync() is open already");
        if (hooks != null) hooks.flush();
        if (sent > 0) {
            throw new IllegalStateException(
                    "noSync() came when gradients were on their way; call finishGradientSynchronization() first");
        }
        synchronising = false;
        return new NoSync();
    }

    /** See {@link DistributedDataParallel#noSync}. */
    public final class NoSync implements AutoCloseable {
        private boolean ended;

        private NoSync() {}

        /** A second time does nothing. */
        @Override
        public void close() {
            if (ended) return;
            ended = true;
            if (hooks != null) hooks.flush();
            synchronising = true;
        }
    }

    /**
     * What this rank multiplies the mean of its losses by, so that the average of the ranks' gradients is the gradient
     * of the mean over all examples: n·W ÷ N for n of N examples on one of W ranks. All ranks call it; it waits for all
     * of them, so it is for the batch that does not divide evenly.
     *
     * @param examples n, at least 0
     * @throws IllegalArgumentException if it is below 0, or no rank has any
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
            if (all == 0) throw new IllegalArgumentException("examples must be at least 1 on some rank, not 0 on all");
            return examples * group.size() / all;
        }
    }

    /** Stops listening, and frees buckets; gradients that lie in them live on. The module stays as it is. */
    @Override
    public void close() {
        closed = true;
        if (hooks != null) {
            hooks.close();
            sending.close();
        }
        messages.forEach(GradientCollective::close);
        ones.close();
        uses.close();
    }

    private void requireOpen(String call) {
        if (closed) throw new IllegalStateException(call + " came after this container was closed; make a new one");
    }

    private static List<GradientCollective> messages(Strategy strategy, List<Tensor> parameters) {
        int n = parameters.size();
        if (strategy instanceof Strategy.Naive) return single(IntStream.range(0, n), parameters);
        if (strategy instanceof Strategy.Overlapped) {
            return single(IntStream.range(0, n).map(i -> n - 1 - i), parameters);
        }
        long most = strategy instanceof Strategy.Bucketed bucketed ? bucketed.bytes() : Long.MAX_VALUE;
        List<BucketLayout.ParameterSize> entries = parameters.stream()
                .map(parameter -> new BucketLayout.ParameterSize(parameter.numel(), DType.of(parameter)))
                .toList();
        return BucketLayout.of(entries, most).buckets().stream()
                .map(bucket -> (GradientCollective) new GradientBucket(bucket, parameters))
                .toList();
    }

    private static List<GradientCollective> single(IntStream places, List<Tensor> parameters) {
        return places.mapToObj(i -> (GradientCollective) new SingleGradient(i, parameters.get(i)))
                .toList();
    }

    private void begin() {
        Arrays.fill(ready, false);
        for (int m = 0; m < missing.length; m++) missing[m] = messages.get(m).members().length;
        filled.clear();
        pending.clear();
        sent = 0;
    }

    /** Called during the backward pass, on its thread. */
    private void ready(int parameter) {
        if (!synchronising) return;
        if (ready[parameter]) {
            throw new IllegalStateException("a second backward pass reached parameter " + names.get(parameter)
                    + " before finishGradientSynchronization(); run all but the last one of a step in noSync()");
        }
        ready[parameter] = true;
        int message = messageOf[parameter];
        if (--missing[message] > 0) return;
        filled.add(message);
        while (sent < order.length && missing[order[sent]] == 0) {
            if (sent == 0) sending.follow();
            int next = order[sent++];
            sending.send(() -> send(next));
            if (!orderIsLearned) sending.awaitAllBut(1);
        }
    }

    private void send(int message) {
        try (var scope = MemoryScope.open()) {
            Tensor gradients = messages.get(message).collect(present);
            if (hooks == null) {
                group.allReduce(gradients, Reduction.AVERAGE);
            } else {
                pending.add(messages.get(message).send(group, gradients));
            }
        }
    }

    /**
     * NCCL's collectives run one after the other, so that to wait for the last is enough; the others are let go beside
     * the step.
     */
    private void await(PendingCollective last) {
        List<PendingCollective> others = List.copyOf(pending);
        if (sending != null && group.backend() == CollectiveBackend.NCCL) {
            sending.send(() -> others.forEach(PendingCollective::await));
        } else {
            others.forEach(PendingCollective::await);
        }
        last.await();
    }

    /** Lets all ranks know which parameters any of them has used. */
    private PendingCollective shareUses() {
        if (allPresent()) {
            uses.copy_(ones); // no number of the host's is waited for
        } else {
            float[] numbers = new float[present.length];
            for (int i = 0; i < numbers.length; i++) numbers[i] = present[i] ? 1 : 0;
            uses.copy_(Tensors.of(numbers, numbers.length));
        }
        return group.allReduceAsync(uses, Reduction.MAX);
    }

    private void dropGradientsOfUnused() {
        if (allPresent()) return; // this rank has used all of them
        double[] used = Tensors.toDoubles(uses);
        for (int i = 0; i < used.length; i++) {
            if (used[i] == 0) parameters.get(i).mutable_grad().reset();
        }
    }

    private boolean allPresent() {
        for (boolean had : present) if (!had) return false;
        return true;
    }

    /** Takes over the order in which rank 0's messages were complete; behind them those that never were. */
    private void learnOrder() {
        long[] seen = IntStream.concat(filled.stream().mapToInt(Integer::intValue), Arrays.stream(order))
                .distinct()
                .asLongStream()
                .toArray();
        Tensor numbers = Tensors.of(seen, seen.length).to(group.device().toTorch(), DType.INT64.scalarType());
        group.broadcast(numbers, 0);
        double[] learned = Tensors.toDoubles(numbers);
        order = Arrays.stream(learned).mapToInt(m -> (int) m).toArray();
        orderIsLearned = true;
    }

    private void broadcast(Map<String, Tensor> tensors) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            List<PendingCollective> sending = new ArrayList<>();
            tensors.forEach((name, tensor) -> {
                Tensor plain = tensor.detach();
                sending.add(group.broadcastAsync(plain.is_complex() ? torch.view_as_real(plain) : plain, 0));
            });
            sending.forEach(PendingCollective::await);
        }
    }
}
