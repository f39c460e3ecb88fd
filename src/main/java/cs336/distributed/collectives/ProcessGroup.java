package cs336.distributed.collectives;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import cs336.units.IntegerMath;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.Work;
import org.bytedeco.pytorch.global.torch;

/**
 * The group of all ranks, or of some, and its collectives, on PyTorch's c10d. All ranks of a group call the same
 * collectives in the same order.
 *
 * <p>Tensors are contiguous, and have the same dtype and shape on all ranks. With NCCL they are on this rank's GPU,
 * with Gloo on the CPU or on this rank's device. Results are written in place, and autograd does not record them. With
 * Gloo a call blocks until the result has arrived. With NCCL it returns when the collective is queued on the current
 * stream. The {@code …Async} methods do not wait for the result: their collective overlaps with computation until
 * {@link PendingCollective#await()}. The first time that a call follows a certain other call, it waits until all ranks
 * have called it; see {@link CollectiveLog}.
 *
 * <p>Every collective throws an {@link IllegalArgumentException} if its tensors are invalid, before anything is sent,
 * an {@link IllegalStateException} after {@link #close} or {@link #abandon}, and a {@link CollectiveFailure} if it
 * fails. With Gloo a timeout is also a failure. With NCCL a started collective that exceeds the timeout throws nothing:
 * c10d's watchdog aborts the process (SIGABRT). Ranks that call different collectives usually get an exception that
 * names the ranks and the calls, at the latest after the timeout: see {@link CollectiveLog}.
 *
 * <p>{@link #split} and {@link #mesh} create subgroups. The ranks of a subgroup are numbered from 0; messages and
 * failures name them by their numbers among all ranks. A failure of a subgroup is also a failure of the whole group,
 * whose launcher or {@link RankWatch} watches the processes. Closing a subgroup does not end the whole group; closing
 * the whole group closes its subgroups.
 *
 * @see #join(World, CollectiveBackend, Duration)
 */
public final class ProcessGroup implements AutoCloseable {
    /** The beginning of the location of a rank that waits in a collective; see {@link #watch}. */
    public static final String BLOCKED = "is blocked in ";

    /** The maximum total size of gathered values in bytes; a Java array holds less than 2³¹. */
    private static final int MOST_GATHERED_BYTES = 1 << 30;

    /** Groups that must not be garbage collected: freeing them would wait for native threads. */
    private static final Queue<ProcessGroup> ABANDONED = new ConcurrentLinkedQueue<>();

    private final World world;
    private final ProcessGroup parent; // null for the group of all ranks
    private final int rank;
    private final int size;
    private final CollectiveBackend backend;
    private final Device device;
    private final Rendezvous rendezvous;
    private final CollectiveLog calls;
    private final C10d c10d;
    private final CallAnswers answers; // null in a group of one rank
    private volatile CollectiveFailure failure;
    private final Traffic.Meter meter = new Traffic.Meter();
    private volatile boolean closed;
    private volatile StartedCollective waiting;
    private volatile boolean leaving; // whether this rank waits for the others before it leaves
    private RankWatch watch; // null if a launcher watches the ranks
    private final List<ProcessGroup> subgroups = new CopyOnWriteArrayList<>(); // open ones, in the order of splits
    private final Map<Integer, DeviceMesh> meshes = new HashMap<>(); // by the number of replicas
    private int splits;
    private volatile List<CollectiveCall> recorded; // by a CUDA graph that is being captured, otherwise null

    private ProcessGroup(ProcessGroup parent, Rendezvous rendezvous, CollectiveBackend backend, Device device) {
        this.parent = parent;
        this.rendezvous = rendezvous;
        this.backend = backend;
        this.device = device;
        world = rendezvous.world();
        rank = rendezvous.rank();
        size = rendezvous.members().size();
        calls = new CollectiveLog(rendezvous, parent == null ? new CollectiveLog.RecentCalls() : parent.calls.recent());
        if (parent == null) {
            requireOneGpuEach(rendezvous.register(location()));
        }
        try {
            c10d = C10d.connect(rendezvous, backend, device);
        } catch (RuntimeException e) {
            if (e instanceof CollectiveFailure) {
                throw e;
            }
            throw new CollectiveFailure(
                    "rank " + world.rank() + " of " + world.size() + " could not connect through " + backend + ": "
                            + CollectiveFailure.reason(e) + rendezvous.silentMembers(),
                    e);
        }
        answers = size == 1 ? null : new CallAnswers(rendezvous, calls);
    }

    /**
     * Joins the group of all ranks through a store at rank 0's port. With NCCL this rank uses the GPU with the index of
     * its local rank, or the only one that it sees; with Gloo the CPU.
     *
     * @param timeout timeout of the rendezvous and of each collective
     * @throws CollectiveFailure if the port is in use, a rank does not arrive in time, or ranks disagree on the world
     * @throws IllegalArgumentException if there is no GPU for this rank; with NCCL on every rank, if two ranks share a
     *     GPU
     */
    public static ProcessGroup join(World world, CollectiveBackend backend, Duration timeout) {
        return join(world, backend, backend.defaultDevice(), timeout);
    }

    /**
     * Joins the group with a chosen kind of device. With Gloo and CUDA, the ranks of a machine may share its GPUs.
     *
     * @throws IllegalArgumentException also if the backend is NCCL and the kind is the CPU
     */
    public static ProcessGroup join(World world, CollectiveBackend backend, DeviceKind kind, Duration timeout) {
        Device device = device(world, backend, kind);
        return join(Rendezvous.atMaster(world, timeout), backend, device);
    }

    /**
     * Joins the group of all ranks through a store in a file, on a file system that all ranks share. The master port is
     * not used.
     *
     * @param file must not exist; deleted when the last rank leaves
     */
    public static ProcessGroup join(World world, CollectiveBackend backend, Duration timeout, Path file) {
        return join(world, backend, backend.defaultDevice(), timeout, file);
    }

    /** Joins the group with a chosen kind of device through a store in a file. */
    public static ProcessGroup join(
            World world, CollectiveBackend backend, DeviceKind kind, Duration timeout, Path file) {
        Device device = device(world, backend, kind);
        return join(Rendezvous.inFile(world, timeout, file), backend, device);
    }

    private static ProcessGroup join(Rendezvous rendezvous, CollectiveBackend backend, Device device) {
        try {
            return new ProcessGroup(null, rendezvous, backend, device);
        } catch (RuntimeException e) {
            rendezvous.close();
            throw e;
        }
    }

    private static Device device(World world, CollectiveBackend backend, DeviceKind kind) {
        Objects.requireNonNull(world, "world must not be null");
        if (kind == DeviceKind.CPU) {
            if (backend == CollectiveBackend.NCCL) {
                throw new IllegalArgumentException("device must be cuda for nccl, not cpu");
            }
            return Device.cpu();
        }
        int gpus = Device.cudaCount();
        if (gpus <= 1) {
            return Device.cuda(0); // Slurm may show each rank only its own GPU
        }
        if (backend == CollectiveBackend.GLOO) {
            return Device.cuda(world.localRank() % gpus);
        }
        if (world.localRank() >= gpus) {
            throw new IllegalArgumentException("nccl needs a GPU for each rank: local rank " + world.localRank()
                    + " of " + world.localSize() + " has none, since this machine has " + gpus);
        }
        return Device.cuda(world.localRank());
    }

    /**
     * Divides the ranks into subgroups, like {@code MPI_Comm_split}. All ranks of this group call it. Closing this
     * group closes the subgroup.
     *
     * @param color the ranks with the same color form a subgroup, in the order of this group
     * @return this rank's subgroup, with the backend, the device and the timeout of this group
     * @throws CollectiveFailure if a rank does not call it, or ranks cannot connect
     */
    public ProcessGroup split(int color) {
        long[] colors = numbersOfRanks("all-gather of colors", color);
        List<Integer> members = IntStream.range(0, size)
                .filter(other -> colors[other] == color)
                .mapToObj(rendezvous.members()::get)
                .toList();
        splits++;
        Rendezvous own = null;
        try {
            own = rendezvous.subgroup("split/" + splits + "/" + color, members);
            var subgroup = new ProcessGroup(this, own, backend, device);
            subgroups.add(subgroup);
            return subgroup;
        } catch (CollectiveFailure e) {
            if (own != null) {
                own.close();
            }
            throw keepFirst(e);
        }
    }

    /**
     * Arranges the ranks as a mesh of replicas × shards, whose subgroups this group closes. All ranks call it. Later
     * calls return the same subgroups.
     *
     * @param replicas a divisor of the number of ranks, equal on all of them
     * @throws IllegalArgumentException if it is not a divisor; on every rank, if ranks differ in it and none has 1
     * @throws CollectiveFailure on the other ranks, at the latest after the timeout, if only some ranks have 1
     */
    public DeviceMesh mesh(int replicas) {
        if (replicas < 1 || size % replicas != 0) {
            throw new IllegalArgumentException(
                    "replicas must be a divisor of the number of ranks, " + size + ", not " + replicas);
        }
        if (replicas == 1) {
            return new DeviceMesh(this, this, null);
        }
        long[] found = numbersOfRanks("all-gather of replicas", replicas);
        for (int other = 0; other < size; other++) {
            if (found[other] != found[0]) {
                throw new IllegalArgumentException("replicas must be equal on all ranks; it is " + found[0]
                        + " on rank 0 and " + found[other] + " on rank " + other);
            }
        }
        DeviceMesh mesh = meshes.get(replicas);
        if (mesh == null) {
            int shards = size / replicas;
            mesh = new DeviceMesh(this, split(rank / shards), split(rank % shards));
            meshes.put(replicas, mesh);
        }
        return mesh;
    }

    /** Returns the open subgroups of this group, without subgroups of subgroups. */
    public List<ProcessGroup> subgroups() {
        return List.copyOf(subgroups);
    }

    /** Returns the rank of this process in the group, from 0. */
    public int rank() {
        return rank;
    }

    /** Returns the number of ranks of the group (of all ranks: the world size). */
    public int size() {
        return size;
    }

    /** Returns the position of this process among all ranks. */
    public World world() {
        return world;
    }

    /** Returns the library that implements the collectives. */
    public CollectiveBackend backend() {
        return backend;
    }

    /** Returns the device of this rank. */
    public Device device() {
        return device;
    }

    /** Replaces the tensor on every rank by the reduction of all ranks' tensors. */
    public void allReduce(Tensor tensor, Reduction reduction) {
        allReduce(tensor, reduction, false).await();
    }

    /** Starts an {@link #allReduce}. */
    public PendingCollective allReduceAsync(Tensor tensor, Reduction reduction) {
        return allReduce(tensor, reduction, true);
    }

    private PendingCollective allReduce(Tensor tensor, Reduction reduction, boolean async) {
        CollectiveChecks.tensor("tensor", tensor, backend, device);
        CollectiveChecks.reducible("tensor", tensor, reduction);
        boolean divideFirst = dividesFirst(reduction, tensor);
        return start(
                CollectiveCall.of(name("all-reduce", reduction), tensor),
                () -> {
                    if (divideFirst) {
                        divide(tensor);
                    }
                    return c10d.allReduce(tensor, reduction, async);
                },
                reduction.divides(backend) && !divideFirst ? tensor : null);
    }

    /**
     * Replaces the tensor on every rank by the root's tensor.
     *
     * @param root the rank in this group whose tensor is sent
     */
    public void broadcast(Tensor tensor, int root) {
        broadcast(tensor, root, false).await();
    }

    /** Starts a {@link #broadcast}. */
    public PendingCollective broadcastAsync(Tensor tensor, int root) {
        return broadcast(tensor, root, true);
    }

    private PendingCollective broadcast(Tensor tensor, int root, boolean async) {
        CollectiveChecks.tensor("tensor", tensor, backend, device);
        CollectiveChecks.rank("root", root, size());
        return start(
                CollectiveCall.of("broadcast (root " + root + ")", tensor),
                () -> c10d.broadcast(tensor, root, async),
                null);
    }

    /**
     * Concatenates the inputs of all ranks, in the order of ranks, on every rank.
     *
     * @param out {@link #size()} times the elements of {@code in}, in any shape
     */
    public void allGather(Tensor out, Tensor in) {
        allGather(out, in, false).await();
    }

    /** Starts an {@link #allGather(Tensor, Tensor)}. */
    public PendingCollective allGatherAsync(Tensor out, Tensor in) {
        return allGather(out, in, true);
    }

    /**
     * Starts one {@link #allGather(Tensor, Tensor)} per pair of tensors; they count as one collective, and NCCL runs
     * them in one launch.
     *
     * @param first name of the first tensor. Ranks compare it like the shapes, so that tensors of equal shapes are not
     *     confused
     * @param outs at least one tensor
     * @param ins one tensor for each of {@code outs}, all of one dtype
     */
    public PendingCollective allGatherAsync(String first, List<Tensor> outs, List<Tensor> ins) {
        CollectiveChecks.shardsOf("outs", outs, "ins", ins, size(), backend, device);
        return start(
                CollectiveCall.of("all-gather (%s)".formatted(tensors(ins.size(), first)), ins),
                () -> c10d.allGather(outs, ins),
                List.of());
    }

    private PendingCollective allGather(Tensor out, Tensor in, boolean async) {
        CollectiveChecks.tensor("out", out, backend, device);
        CollectiveChecks.tensor("in", in, backend, device);
        CollectiveChecks.shardsOf("out", out, "in", in, size());
        return start(CollectiveCall.of("all-gather", in), () -> c10d.allGather(out, in, async), null);
    }

    /**
     * Reduces the inputs of all ranks, and writes shard r of the result to the output of rank r.
     *
     * @param in {@link #size()} times the elements of {@code out}, in any shape
     */
    public void reduceScatter(Tensor out, Tensor in, Reduction reduction) {
        reduceScatter(out, in, reduction, false).await();
    }

    /** Starts a {@link #reduceScatter}. */
    public PendingCollective reduceScatterAsync(Tensor out, Tensor in, Reduction reduction) {
        return reduceScatter(out, in, reduction, true);
    }

    /**
     * Starts one {@link #reduceScatter} per pair of tensors; they count as one collective, and NCCL runs them in one
     * launch.
     *
     * @param first name of the first tensor. Ranks compare it like the shapes, so that tensors of equal shapes are not
     *     confused
     * @param outs at least one tensor
     * @param ins one tensor for each of {@code outs}, all of one dtype
     */
    public PendingCollective reduceScatterAsync(
            String first, List<Tensor> outs, List<Tensor> ins, Reduction reduction) {
        CollectiveChecks.shardsOf("ins", ins, "outs", outs, size(), backend, device);
        CollectiveChecks.reducible("ins[0]", ins.get(0), reduction);
        boolean divideFirst = dividesFirst(reduction, ins.get(0));
        return start(
                CollectiveCall.of(
                        "reduce-scatter (%s, %s)".formatted(lowerCase(reduction), tensors(ins.size(), first)), outs),
                () -> c10d.reduceScatter(
                        outs, divideFirst ? ins.stream().map(this::divided).toList() : ins, reduction),
                reduction.divides(backend) && !divideFirst ? outs : List.of());
    }

    private PendingCollective reduceScatter(Tensor out, Tensor in, Reduction reduction, boolean async) {
        CollectiveChecks.tensor("out", out, backend, device);
        CollectiveChecks.tensor("in", in, backend, device);
        CollectiveChecks.shardsOf("in", in, "out", out, size());
        CollectiveChecks.reducible("in", in, reduction);
        boolean divideFirst = dividesFirst(reduction, in);
        return start(
                CollectiveCall.of(name("reduce-scatter", reduction), out),
                () -> c10d.reduceScatter(out, divideFirst ? divided(in) : in, reduction, async),
                reduction.divides(backend) && !divideFirst ? out : null);
    }

    /** Returns whether inputs are divided before the sum: in fp16 the sum may overflow (above 65,504). */
    private boolean dividesFirst(Reduction reduction, Tensor tensor) {
        return reduction.divides(backend) && DType.of(tensor) == DType.FLOAT16;
    }

    private void divide(Tensor tensor) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            tensor.div_(new Scalar(size()));
        }
    }

    private Tensor divided(Tensor tensor) {
        Tensor copy = tensor.detach().clone();
        divide(copy);
        return copy;
    }

    /**
     * Blocks until all ranks have called it, and until all work queued on this rank's GPU has finished. With NCCL the
     * work queued before on the current streams of the other ranks has finished, too.
     *
     * @throws CollectiveFailure also if ranks have called different collectives before
     */
    public void barrier() {
        try (var scope = MemoryScope.open()) {
            long mine = calls.fingerprint();
            Tensor extremes = onDevice(new long[] {mine, ~mine});
            start(CollectiveCall.of("barrier", extremes), () -> c10d.allReduce(extremes, Reduction.MAX, false), null)
                    .await();
            device.synchronize();
            long[] found = Tensors.toLongs(extremes); // the maximum, and the complement of the minimum
            if (found[0] != ~found[1]) {
                throw divergence("in a barrier");
            }
        }
    }

    /**
     * Returns the values of all ranks on every rank, in the order of ranks. All ranks call it.
     *
     * @param value an object that {@link Serialization} can send; may be null
     * @throws IllegalArgumentException on this rank, if the value cannot be sent; on every rank, if a serialized value
     *     has more than 2³⁰ ÷ {@link #size()} bytes
     * @throws CollectiveFailure also if ranks have called different collectives before
     */
    public <T extends Serializable> List<T> allGather(T value) {
        return exchange("all-gather of values", value, true, (out, in) -> c10d.allGather(out, in, false));
    }

    /**
     * Returns the elementwise maximum of all ranks' values. All ranks call it with arrays of one length.
     *
     * @throws CollectiveFailure also if ranks have called different collectives before
     */
    public double[] max(double[] values) {
        double[] largest = values.clone();
        for (double[] others : allGather(values)) {
            for (int i = 0; i < largest.length; i++) {
                largest[i] = Math.max(largest[i], others[i]);
            }
        }
        return largest;
    }

    /**
     * Returns the values of all ranks on the root, in the order of ranks, and an empty list on the other ranks.
     *
     * @param value an object that {@link Serialization} can send; may be null
     * @param root the rank in this group that receives the values
     * @throws IllegalArgumentException as {@link #allGather(Serializable)}; also if the root is not a rank of the group
     * @throws CollectiveFailure also if ranks have called different collectives before
     */
    public <T extends Serializable> List<T> gather(T value, int root) {
        CollectiveChecks.rank("root", root, size());
        boolean receives = rank() == root;
        String name = "gather of values (root " + root + ")";
        return exchange(name, value, receives, (out, in) -> c10d.gather(out, in, root));
    }

    /**
     * Exchanges serialized values as int64 tensors, eight bytes per element. Ranks exchange the lengths first, then pad
     * all values to the longest.
     *
     * @param receives whether this rank gets the values
     * @param send starts the collective, from the output and this rank's input
     */
    private <T extends Serializable> List<T> exchange(
            String name, T value, boolean receives, BiFunction<Tensor, Tensor, Work> send) {
        byte[] mine = Serialization.bytes(value);
        try (var scope = MemoryScope.open()) {
            int[] lengths = Arrays.stream(numbersOfRanks("all-gather of values", mine.length))
                    .mapToInt(Math::toIntExact)
                    .toArray();
            int longest = Arrays.stream(lengths).max().orElseThrow();
            if (longest > MOST_GATHERED_BYTES / size()) { // the same on all ranks
                throw new IllegalArgumentException("a value must have at most " + MOST_GATHERED_BYTES / size()
                        + " bytes to be gathered from " + size() + " ranks, not " + longest);
            }
            int elements = IntegerMath.ceilDiv(longest, Long.BYTES);
            long[] padded = new long[elements];
            ByteBuffer.wrap(Arrays.copyOf(mine, elements * Long.BYTES))
                    .asLongBuffer()
                    .get(padded);
            Tensor in = onDevice(padded);
            Tensor out = torch.zeros(
                    new long[] {receives ? (long) elements * size() : 0},
                    ownDevice().options(DType.INT64));
            start(CollectiveCall.of(name, in), () -> send.apply(out, in), null).await();
            return receives ? values(Tensors.toLongs(out), lengths, elements) : List.of();
        }
    }

    /**
     * Gathers one number per rank, and compares the fingerprints of all ranks.
     *
     * @param name name of the collective
     */
    private long[] numbersOfRanks(String name, long mine) {
        try (var scope = MemoryScope.open()) {
            long fingerprint = calls.fingerprint();
            Tensor head = onDevice(new long[] {mine, fingerprint});
            Tensor heads = torch.zeros(new long[] {2L * size}, ownDevice().options(DType.INT64));
            start(CollectiveCall.of(name, head), () -> c10d.allGather(heads, head, false), null)
                    .await();
            long[] found = Tensors.toLongs(heads);
            long[] numbers = new long[size];
            for (int other = 0; other < size; other++) {
                if (found[2 * other + 1] != fingerprint) {
                    throw divergence("when values are gathered");
                }
                numbers[other] = found[2 * other];
            }
            return numbers;
        }
    }

    private static <T extends Serializable> List<T> values(long[] numbers, int[] lengths, int elements) {
        var all = ByteBuffer.allocate(numbers.length * Long.BYTES);
        all.asLongBuffer().put(numbers);
        var values = new ArrayList<T>();
        for (int other = 0; other < lengths.length; other++) {
            byte[] bytes = new byte[lengths[other]];
            all.get(other * elements * Long.BYTES, bytes);
            values.add(Serialization.value(bytes));
        }
        return values;
    }

    /** Returns the device of tensors that the group itself exchanges: NCCL supports GPUs only. */
    private Device ownDevice() {
        return backend == CollectiveBackend.NCCL ? device : Device.cpu();
    }

    private Tensor onDevice(long[] values) {
        return Tensors.of(values, values.length).to(ownDevice().toTorch(), DType.INT64.scalarType());
    }

    private PendingCollective start(CollectiveCall call, Supplier<Work> work, Tensor toDivide) {
        // NCCL returns null for a synchronous collective, which is in the current stream: nothing to wait for.
        return start(
                call,
                () -> Optional.ofNullable(work.get()).stream().toList(),
                Optional.ofNullable(toDivide).stream().toList());
    }

    /**
     * Records collectives in a CUDA graph, with NCCL. Each replay runs them again, so all ranks replay their graphs in
     * the same order, and close the graphs before this group. A replayed collective has no timeout: if another rank
     * ends, the watch or the launcher of this rank must end it.
     *
     * @param work starts collectives while the current stream is being captured
     * @return an action to run directly before each replay, which counts and compares the collectives like other calls
     * @throws IllegalStateException if {@code work} calls this method
     */
    public Runnable recordInGraph(Runnable work) {
        if (recorded != null) {
            throw new IllegalStateException("recordInGraph() was called inside recordInGraph()");
        }
        List<CollectiveCall> own = new ArrayList<>();
        recorded = own;
        try {
            work.run();
        } finally {
            recorded = null;
        }
        return () -> own.forEach(this::countReplay);
    }

    private void countReplay(CollectiveCall call) {
        start(call, List::<Work>of, List.of()).await();
    }

    private PendingCollective start(CollectiveCall call, Supplier<List<Work>> work, List<Tensor> toDivide) {
        synchronized (calls) { // collectives start in the order in which they are recorded
            if (closed) {
                throw new IllegalStateException("the process group is closed");
            }
            long number = 0;
            try (var scope = MemoryScope.open()) {
                if (recorded == null) {
                    number = calls.record(call);
                    meter.count(call, size());
                } else {
                    recorded.add(call);
                }
                List<Work> started = work.get();
                started.forEach(MemoryScope::keep);
                return new StartedCollective(started, number, call, toDivide);
            } catch (RuntimeException e) {
                throw failure(e, number, call);
            }
        }
    }

    private CollectiveFailure failure(RuntimeException e, long number, CollectiveCall call) {
        if (e instanceof CollectiveFailure known) {
            return keepFirst(known);
        }
        String message = "%s, failed on rank %d of %d: %s%s"
                .formatted(
                        calls.name(number, call),
                        world.rank(),
                        world.size(),
                        CollectiveFailure.reason(e),
                        calls.difference());
        return keepFirst(new CollectiveFailure(message, e, calls.hasDiverged()));
    }

    /** Keeps the first failure; later ones are its consequences. */
    private CollectiveFailure keepFirst(CollectiveFailure next) {
        if (failure == null) {
            failure = next;
        }
        if (parent != null) {
            parent.keepFirst(next);
        }
        return next;
    }

    /** Returns whether a collective of this group or of a group that contains it has failed. */
    private boolean hasFailed() {
        return failure != null || parent != null && parent.hasFailed();
    }

    /** Returns the first failure of a collective of this group or of a subgroup; null if none has failed. */
    public CollectiveFailure failure() {
        return failure;
    }

    private CollectiveFailure divergence(String where) {
        String difference = calls.difference();
        return keepFirst(new CollectiveFailure(
                "ranks have called different collectives; detected on rank " + world.rank() + " " + where + difference,
                null,
                calls.hasDiverged()));
    }

    /** Returns the volume of data that this rank has passed to collectives of this group so far, without subgroups. */
    public Traffic traffic() {
        synchronized (calls) {
            return meter.traffic();
        }
    }

    /**
     * Returns the collective of this group or of a subgroup in which this rank is blocked, as text; {@code the end of
     * the group} in {@link #close}; null if it is not blocked.
     */
    public String waitingIn() {
        StartedCollective current = waiting;
        if (current != null) {
            return calls.name(current.number, current.call);
        }
        String comparing = calls.comparing();
        if (comparing != null) {
            return comparing;
        }
        if (leaving) {
            return "the end of the group";
        }
        return subgroups.stream()
                .map(ProcessGroup::waitingIn)
                .filter(Objects::nonNull)
                .findFirst()
                .orElse(null);
    }

    /** Returns the number of collectives that this rank has called in all groups. */
    public long calls() {
        return calls.recent().count();
    }

    /** Returns the last collectives that this rank has called in all groups, with their numbers. Never blocks. */
    public List<String> lastCalls() {
        return calls.recent().last();
    }

    /**
     * Starts heartbeats and failure reports between ranks that no common launcher watches. All ranks must call it,
     * once. {@link #close} closes the watch.
     *
     * @param location describes what this rank does; called on another thread
     * @throws IllegalStateException if this is a subgroup
     */
    public RankWatch watch(Supplier<String> location) {
        if (parent != null) {
            throw new IllegalStateException("a subgroup has no watch; that of the whole group watches all ranks");
        }
        watch = new RankWatch(rendezvous, location);
        return watch;
    }

    /** A started collective, with the division by the number of ranks that Gloo does not perform. */
    private final class StartedCollective implements PendingCollective {
        private final List<Work> works;
        private final long number;
        private final CollectiveCall call;
        private final List<Tensor> toDivide;
        private boolean ended;
        private CollectiveFailure failed;

        StartedCollective(List<Work> works, long number, CollectiveCall call, List<Tensor> toDivide) {
            this.works = works;
            this.number = number;
            this.call = call;
            this.toDivide = toDivide.stream()
                    .map(tensor -> MemoryScope.keep(new Tensor(tensor)))
                    .toList();
        }

        @Override
        public synchronized void await() {
            if (failed != null) {
                throw failed;
            }
            if (ended) {
                return;
            }
            waiting = this;
            try {
                works.forEach(Work::_wait);
                toDivide.forEach(ProcessGroup.this::divide);
            } catch (RuntimeException e) {
                failed = failure(e, number, call);
                throw failed;
            } finally {
                waiting = null;
                ended = true;
                works.forEach(Work::close);
                toDivide.forEach(Tensor::close);
            }
        }
    }

    /**
     * Blocks until all ranks leave the group, then frees it and its subgroups. All ranks call it. After a failed
     * collective this rank leaves at once, like {@link #abandon}.
     *
     * @throws CollectiveFailure if ranks have called different collectives, or a rank does not leave within the timeout
     */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        if (hasFailed()) {
            abandon();
            return;
        }
        try {
            subgroups.forEach(ProcessGroup::close);
            leaveTogether();
        } catch (CollectiveFailure e) {
            abandon();
            throw keepFirst(e);
        }
        if (parent != null) {
            parent.subgroups.remove(this);
        }
        if (watch != null) {
            watch.close();
        }
        c10d.close();
        rendezvous.close();
    }

    /**
     * Leaves the group and its subgroups after a failure on this rank, without telling the other ranks, whose
     * collectives then fail. Native memory is not freed, since that would wait for collectives that may never end.
     */
    public void abandon() {
        closed = true;
        subgroups.forEach(ProcessGroup::abandon);
        if (answers != null) {
            answers.stop();
        }
        ABANDONED.add(this);
    }

    private void leaveTogether() {
        leaving = true;
        String mine = calls.count() + " " + calls.fingerprint();
        rendezvous.post("leaving", mine);
        long end = rendezvous.deadline();
        for (int other : rendezvous.members()) {
            String theirs = rendezvous.readUntil("leaving", other, end);
            if (theirs == null) {
                throw keepFirst(new CollectiveFailure("rank " + other + " did not leave the group within "
                        + Rendezvous.text(rendezvous.timeout()) + " after rank " + world.rank() + calls.difference()));
            }
            if (!theirs.equals(mine)) {
                throw divergence("when leaving the group");
            }
        }
        if (answers != null) {
            answers.close();
        }
        if (parent != null) {
            return; // the store remains
        }
        rendezvous.post("left", "");
        if (rank == 0) { // rank 0 hosts the store
            end = rendezvous.deadline();
            for (int other = 1; other < size; other++) {
                rendezvous.readUntil("left", other, end);
            }
        }
    }

    private String location() {
        String host = Host.name();
        return host + " " + (device.isCuda() ? Host.gpu(device) : "cpu");
    }

    private void requireOneGpuEach(List<String> locations) {
        if (backend == CollectiveBackend.GLOO) {
            return;
        }
        for (int other = 0; other < size(); other++) {
            int first = locations.indexOf(locations.get(other));
            if (first < other) { // on all ranks, so that none waits for these two
                throw new IllegalArgumentException("nccl needs a GPU for each rank: ranks " + first + " and " + other
                        + " share " + locations.get(other));
            }
        }
    }

    private static String tensors(int count, String first) {
        return count == 1 ? first : first + " and %d more".formatted(count - 1);
    }

    private static String name(String operation, Reduction reduction) {
        return operation + " (" + lowerCase(reduction) + ")";
    }

    private static String lowerCase(Reduction reduction) {
        return reduction.name().toLowerCase(Locale.ROOT);
    }
}
