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
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.ProfilerRange;
import cs336.torch.Tensors;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.BiFunction;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * An optimizer of which each rank keeps a part: it updates its share of the parameters, for which alone it has moments
 * or velocities, and then ranks give each other what they have updated. How they divide and give is a {@link Sharding}.
 *
 * <pre>{@code
 * var optimizer = new ShardedOptimizer<>(
 *         model.namedParameters(), AdamW::new, AdamW.Options.of(1e-3), group, Sharding.broadcast());
 * optimizer.add(unfrozen, AdamW.Options.of(1e-4));
 * }</pre>
 *
 * <p>All ranks make the same calls with the same parameters in the same order. A parameter that stands under two names,
 * as a tied head does, is one parameter, under its first.
 *
 * <p>After {@link #close} nothing that updates, gathers or loads can be called: that is an
 * {@link IllegalStateException}, on all ranks alike.
 *
 * @param <O> settings of a group of parameters
 */
public final class ShardedOptimizer<O> implements Optimizer {
    private final BiFunction<Map<String, Tensor>, O, ? extends Optimizer> factory;
    private final ProcessGroup group;
    private final Sharding sharding;
    private ShardAssignment assignment; // of whole parameters
    private final Map<String, Tensor> parameters = new LinkedHashMap<>();
    private final List<ShardedGroup> parts = new ArrayList<>();
    private NnModule model; // whose forward pass waits for its parameters; null if step() waits
    private boolean gradientsAreThere;
    private boolean closed;

    /** A group of parameters: its shards, and the optimizer of this rank's own. */
    private record ShardedGroup(Shards shards, Optimizer optimizer) {}

    /**
     * Parameters with settings of their own.
     *
     * @param parameters by name
     */
    public record ParameterGroup<O>(Map<String, Tensor> parameters, O options) {}

    /**
     * An optimizer of these parameters, all with the same settings; see {@link #ShardedOptimizer(List, BiFunction,
     * ProcessGroup, Sharding)}.
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
     * An optimizer of several groups of parameters.
     *
     * @param groups at least one
     * @param factory makes an optimizer from this rank's part of a group, which may be empty, and the group's settings,
     *     such as {@code AdamW::new}
     * @throws IllegalArgumentException on every rank, if parameters differ between ranks or cannot be trained
     */
    public ShardedOptimizer(
            List<ParameterGroup<O>> groups,
            BiFunction<Map<String, Tensor>, O, ? extends Optimizer> factory,
            ProcessGroup group,
            Sharding sharding) {
        if (groups.isEmpty()) {
            throw new IllegalArgumentException("groups must not be empty: there is nothing to optimize");
        }
        this.factory = factory;
        this.group = group;
        this.sharding = sharding;
        assignment = new ShardAssignment(group.size());
        try {
            groups.forEach(g -> add(g.parameters, g.options));
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    /**
     * Adds parameters with settings of their own, at any time between two steps. What fails on any rank changes nothing
     * on any.
     *
     * @throws IllegalArgumentException on every rank, if parameters differ between ranks, or one rank's optimizer could
     *     not be made; or if a parameter is in this optimizer already, or is not a contiguous floating-point tensor on
     *     the group's device
     */
    public void add(Map<String, Tensor> more, O options) {
        requireOpen("add()");
        awaitParameters();
        Map<String, Tensor> once = once(more);
        SameParameters.require(group, once);
        ShardAssignment assigned = assigned(once);
        Shards shards = sharding instanceof Sharding.AllGather flat
                ? new AllGatherShards(once, flat.bucketMb(), group)
                : new BroadcastShards(once, assigned, group);
        Optimizer optimizer = madeOnAllRanks(shards, options);
        assignment = assigned;
        parameters.putAll(once);
        parts.add(new ShardedGroup(shards, optimizer));
        if (model != null) {
            overlapWith(model);
        }
    }

    private ShardAssignment assigned(Map<String, Tensor> more) {
        var sizes = new LinkedHashMap<String, Long>();
        more.forEach((name, parameter) -> sizes.put(name, parameter.nbytes()));
        ShardAssignment assigned = assignment.copy();
        assigned.add(sizes);
        return assigned;
    }

    /** The optimizer of what this rank owns, if every rank could make its own; otherwise the shards are given up. */
    private Optimizer madeOnAllRanks(Shards shards, O options) {
        Optimizer made = null;
        RuntimeException failure = null;
        try {
            made = factory.apply(shards.own(), options);
        } catch (RuntimeException e) {
            failure = e;
        }
        List<String> complaints = group.allGather(failure == null ? "" : failure.toString());
        for (int rank = 0; rank < complaints.size(); rank++) {
            if (complaints.get(rank).isEmpty()) continue;
            if (made != null) made.close();
            shards.giveUp();
            if (failure != null) throw failure;
            throw new IllegalArgumentException(
                    "the optimizer of rank " + rank + " could not be made: " + complaints.get(rank));
        }
        return made;
    }

    /** Each parameter under its first name. */
    private Map<String, Tensor> once(Map<String, Tensor> more) {
        var once = new LinkedHashMap<String, Tensor>();
        more.forEach((name, parameter) -> {
            requireTrainable(name, parameter);
            if (once.values().stream().noneMatch(parameter::is_same)) {
                once.put(name, parameter);
            }
        });
        return once;
    }

    private void requireTrainable(String name, Tensor parameter) {
        if (!parameter.defined() || !parameter.is_floating_point() || !parameter.is_contiguous()) {
            throw new IllegalArgumentException("parameter " + name + " must be a contiguous floating-point tensor");
        }
        if (parameter.is_cuda() != group.device().isCuda()) {
            throw new IllegalArgumentException("parameter " + name + " is not on " + group.device());
        }
        for (var known : parameters.entrySet()) {
            if (known.getKey().equals(name) || known.getValue().is_same(parameter)) {
                throw new IllegalArgumentException("parameter " + name + " is in this optimizer already"
                        + (known.getKey().equals(name) ? "" : ", as " + known.getKey()));
            }
        }
    }

    /**
     * Lets the next forward pass of a model wait for parameters, each layer for its own, so that they travel while the
     * layers before it compute. Without this {@link #step} waits for all. Whoever reads parameters in another way
     * between {@link #step} and the end of that forward pass must call {@link #awaitParameters} first. Nothing is
     * gained with {@link Sharding#broadcast}.
     */
    public void overlapWith(NnModule model) {
        this.model = model;
        for (NnModule layer : model.layers()) {
            List<Runnable> arrivals = new ArrayList<>();
            for (Tensor parameter : layer.ownParameters()) {
                parts.stream()
                        .map(part -> part.shards.arrivalOf(parameter))
                        .filter(Objects::nonNull)
                        .forEach(arrivals::add);
            }
            layer.beforeForward(() -> arrivals.forEach(Runnable::run));
        }
    }

    /** What averages gradients where this optimizer needs them; see {@link DistributedDataParallel}. */
    List<GradientCollective> gradients(List<Tensor> learning) {
        for (Tensor parameter : learning) {
            if (parameters.values().stream().noneMatch(parameter::is_same)) {
                throw new IllegalArgumentException("a parameter of shape " + Arrays.toString(Tensors.shape(parameter))
                        + " learns, but is not in the optimizer: its gradients would go nowhere");
            }
        }
        List<GradientCollective> messages = new ArrayList<>();
        parts.forEach(part -> messages.addAll(0, part.shards.gradients(learning)));
        return messages;
    }

    /** Returns once all parameters may be used; see {@link PendingCollective#await}. */
    public void awaitParameters() {
        parts.forEach(part -> part.shards.arrive());
    }

    /** All parameters by name, those of other ranks too, in the order in which they were added. */
    @Override
    public Map<String, Tensor> parameters() {
        return Collections.unmodifiableMap(parameters);
    }

    /** Bytes of the parameters that each rank owns. */
    public long[] shardBytes() {
        var bytes = new long[group.size()];
        for (ShardedGroup part : parts) {
            long[] more = part.shards.bytes();
            Arrays.setAll(bytes, rank -> bytes[rank] + more[rank]);
        }
        return bytes;
    }

    /** The largest of {@link #shardBytes} over their mean: 1 is best, the number of ranks worst. */
    public double imbalance() {
        return ShardAssignment.imbalance(shardBytes());
    }

    /**
     * Updates every parameter that has a gradient, each on the rank that owns it, and brings the new ones to all ranks.
     */
    @Override
    public void step() {
        update();
        synchronise();
    }

    /** The first half of a step: each rank updates what it owns. */
    public void update() {
        requireOpen("step()");
        try (var range = ProfilerRange.of("optimizer")) {
            awaitParameters();
            bringGradients();
            parts.forEach(part -> part.optimizer.step());
            dropGradients();
        }
    }

    /** The second half: what was updated comes to the other ranks, or begins to where a forward pass waits for it. */
    public void synchronise() {
        try (var range = ProfilerRange.of("parameters");
                var noGrad = NoGrad.open()) {
            parts.forEach(part -> part.shards.send());
        }
        if (model == null) {
            awaitParameters();
        }
    }

    private void bringGradients() {
        if (!gradientsAreThere) {
            parts.forEach(part -> part.shards.bringGradients());
            gradientsAreThere = true;
        }
    }

    private void dropGradients() {
        parts.forEach(part -> part.shards.dropGradients());
        gradientsAreThere = false;
    }

    @Override
    public void zeroGrad() {
        requireOpen("zeroGrad()");
        dropGradients();
        Optimizer.super.zeroGrad();
    }

    /**
     * Clips the gradients of the whole model, as {@link GradientClipping#clipByGlobalNorm} does, directly before
     * {@link #step}: each rank takes the norm of what it owns, and scales that alone. Afterwards a parameter's gradient
     * is of use to {@link #step} only.
     *
     * @param maxNorm above 0
     * @return the norm of all gradients before clipping, the same on every rank, a tensor without dimensions in the
     *     caller's memory scope
     * @throws IllegalArgumentException if {@code maxNorm} is not above 0, or there are no parameters
     */
    public Tensor clipGradients(double maxNorm) {
        requireOpen("clipGradients()");
        if (parameters.isEmpty()) {
            throw new IllegalArgumentException("parameters must not be none: there is nothing to clip");
        }
        if (!(maxNorm > 0)) {
            throw new IllegalArgumentException("maxNorm must be above 0, not " + maxNorm);
        }
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            bringGradients();
            List<Tensor> own = new ArrayList<>();
            parts.forEach(part -> own.addAll(part.shards.own().values()));
            Tensor squares = GradientClipping.norm(own)
                    .to(group.device().toTorch(), DType.FLOAT64.scalarType())
                    .square()
                    .reshape(1);
            group.allReduce(squares, Reduction.SUM);
            DType dtype = DType.of(parameters.values().iterator().next());
            Tensor norm =
                    squares.sqrt().squeeze().to((dtype.bytes() < Float.BYTES ? DType.FLOAT32 : dtype).scalarType());
            GradientClipping.clip(own, norm, maxNorm);
            return scope.escape(norm);
        }
    }

    /** The learning rate of the first group. */
    @Override
    public double learningRate() {
        return parts.get(0).optimizer.learningRate();
    }

    /** Sets the learning rate of every group. */
    @Override
    public void setLearningRate(double learningRate) {
        parts.forEach(part -> part.optimizer.setLearningRate(learningRate));
    }

    /**
     * Sets the learning rate of one group.
     *
     * @param number of the group, from 0, in the order in which they were added
     */
    public void setLearningRate(int number, double learningRate) {
        parts.get(Objects.checkIndex(number, parts.size())).optimizer.setLearningRate(learningRate);
    }

    @Override
    public String kind() {
        return parts.get(0).optimizer.kind();
    }

    /** What this rank remembers of what it owns. For that of all ranks see {@link #wholeState}. */
    @Override
    public Map<String, Tensor> state() {
        var state = new LinkedHashMap<String, Tensor>();
        parts.forEach(part -> state.putAll(part.optimizer.state()));
        return state;
    }

    /**
     * A tensor of one rank's state.
     *
     * @param first where it belongs in a tensor that is shaped like the parameter; −1 if it is no such part, as a count
     *     of steps
     */
    private record Remembered(String key, long first, String dtype, long[] shape) implements Serializable {
        private static final long serialVersionUID = 1;
    }

    /**
     * What all ranks remember, as an optimizer without shards would. All ranks must call it.
     *
     * @return on rank 0 tensors on the CPU in the caller's memory scope; on the others nothing
     */
    public Map<String, Tensor> wholeState() {
        requireOpen("wholeState()");
        Map<String, Tensor> whole = new LinkedHashMap<>();
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Map<String, Tensor> mine = state();
            var remembered = new ArrayList<Remembered>();
            mine.forEach((key, tensor) -> remembered.add(
                    new Remembered(key, first(key, tensor), DType.of(tensor).toString(), Tensors.shape(tensor))));
            List<ArrayList<Remembered>> all = group.allGather(remembered);
            for (int rank = 0; rank < all.size(); rank++) {
                for (Remembered r : all.get(rank)) {
                    try (var each = MemoryScope.open()) {
                        receive(r, rank, mine, whole);
                    }
                }
            }
            whole.values().forEach(scope::escape);
        }
        return whole;
    }

    private long first(String key, Tensor tensor) {
        for (ShardedGroup part : parts) {
            Tensor own = part.shards.own().get(parameterOf(key));
            boolean shaped = own != null && Arrays.equals(Tensors.shape(own), Tensors.shape(tensor));
            if (shaped && tensor.is_floating_point()) { // a count of steps has one number too
                return part.shards.first(parameterOf(key));
            }
        }
        return -1;
    }

    private void receive(Remembered r, int rank, Map<String, Tensor> mine, Map<String, Tensor> whole) {
        DType dtype = DType.parse(r.dtype);
        Device device = group.device();
        Tensor sent = rank == group.rank()
                ? mine.get(r.key)
                        .to(device.toTorch(), dtype.scalarType())
                        .contiguous()
                        .reshape(-1)
                : torch.zeros(new long[] {product(r.shape)}, device.options(dtype));
        group.broadcast(sent, rank);
        if (group.rank() != 0) {
            return;
        }
        Tensor onCpu = sent.to(Device.cpu().toTorch(), dtype.scalarType());
        if (r.first < 0) {
            whole.computeIfAbsent(r.key, k -> MemoryScope.keep(onCpu.clone().reshape(r.shape)));
        } else {
            long[] shape = Tensors.shape(parameters.get(parameterOf(r.key)));
            Tensor all = whole.computeIfAbsent(
                    r.key, k -> MemoryScope.keep(torch.zeros(shape, Device.cpu().options(dtype))));
            all.reshape(-1).narrow(0, r.first, onCpu.numel()).copy_(onCpu);
        }
    }

    private static long product(long[] shape) {
        return Arrays.stream(shape).reduce(1, Math::multiplyExact);
    }

    /** {@code layers.0.ln1.weight.m} is of {@code layers.0.ln1.weight}. */
    private static String parameterOf(String key) {
        int dot = key.lastIndexOf('.');
        return dot < 0 ? key : key.substring(0, dot);
    }

    @Override
    public void requireLoadable(Map<String, Tensor> whole) {
        try (var scope = MemoryScope.open()) {
            parts.forEach(part -> part.optimizer.requireLoadable(ownOf(whole, part)));
        }
    }

    /**
     * Takes over the state of an optimizer without shards, or what {@link #wholeState} gave, from any number of ranks
     * and any {@link Sharding}. All ranks must call it with the same state.
     *
     * @throws IllegalArgumentException on every rank, if a name is unknown or incomplete, or a shape or dtype differs;
     *     then nothing changes on any
     */
    @Override
    public void loadState(Map<String, Tensor> whole) {
        requireOpen("loadState()");
        awaitParameters();
        String complaint = "";
        try {
            requireLoadable(whole);
        } catch (IllegalArgumentException e) {
            complaint = e.getMessage();
        }
        for (String c : group.allGather(complaint)) {
            if (!c.isEmpty()) {
                throw new IllegalArgumentException(c);
            }
        }
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            parts.forEach(part -> part.optimizer.loadState(ownOf(whole, part)));
        }
    }

    /** What of a whole state is about this rank's own parameters. */
    private Map<String, Tensor> ownOf(Map<String, Tensor> whole, ShardedGroup part) {
        var own = new LinkedHashMap<String, Tensor>();
        whole.forEach((key, tensor) -> {
            String name = parameterOf(key);
            Tensor parameter = parameters.get(name);
            if (parameter == null) {
                throw new IllegalArgumentException("state has " + key + ", which no parameter here has");
            }
            Tensor mine = part.shards.own().get(name);
            if (mine == null) {
                return;
            }
            boolean shaped = Arrays.equals(Tensors.shape(tensor), Tensors.shape(parameter));
            if (!shaped && tensor.numel() != 1) {
                throw new IllegalArgumentException("state " + key + " is " + Arrays.toString(Tensors.shape(tensor))
                        + ", but the parameter is " + Arrays.toString(Tensors.shape(parameter)));
            }
            own.put(
                    key,
                    shaped && mine.dim() > 0
                            ? tensor.reshape(-1)
                                    .narrow(0, part.shards.first(name), mine.numel())
                                    .view(Tensors.shape(mine))
                            : tensor);
        });
        return own;
    }

    /**
     * Saves parameters and the state of all ranks in one file, which an optimizer without shards can load too, and
     * {@link Checkpoint#load(Path, Map, Optimizer)} loads into this one. All ranks must call it; rank 0 writes.
     *
     * @param parameters the whole model's, by name
     * @param metadata texts to keep with them; {@code optimizer} is taken
     * @throws IOException on every rank, if the file cannot be written
     */
    public void save(Path file, Map<String, Tensor> parameters, Map<String, String> metadata) throws IOException {
        awaitParameters();
        try (var scope = MemoryScope.open()) {
            Map<String, Tensor> whole = wholeState();
            String complaint = "";
            if (group.rank() == 0) {
                try {
                    Checkpoint.save(file, parameters, kind(), whole, metadata);
                } catch (IOException | IllegalArgumentException e) {
                    complaint = "checkpoint " + file + " could not be written: " + e.getMessage();
                }
            }
            complaint = group.allGather(complaint).get(0);
            if (!complaint.isEmpty()) {
                throw new IOException(complaint);
            }
        }
    }

    private void requireOpen(String call) {
        if (closed) throw new IllegalStateException(call + " came after this optimizer was closed; make a new one");
    }

    /**
     * Waits for parameters that are on their way, frees what this object alone has, and lets the model's forward pass
     * alone. The parameters stay. A second call does nothing.
     *
     * @throws CollectiveFailure if they did not arrive, unless that has been said before: then nothing is waited for
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
            parts.forEach(part -> {
                part.optimizer.close();
                part.shards.close();
            });
            if (model != null) {
                model.layers().forEach(layer -> layer.beforeForward(() -> {}));
            }
        }
    }
}
