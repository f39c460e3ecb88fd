package cs336.distributed.collectives;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.DeviceKind;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.Work;
import org.bytedeco.pytorch.global.torch;

/**
 * All ranks, and the collectives among them, on PyTorch's own c10d. Every rank makes the same calls in the same order.
 *
 * <p>Tensors are dense, of one type and size on all ranks: for NCCL on this rank's card, for Gloo on the CPU or on this
 * rank's device. Results are written in place, without autograd's notice. With Gloo a call returns when the result is
 * there; with NCCL once it is queued on the current stream, as all work on a card is. The {@code …Async} forms return
 * at once, and their collective runs beside what is computed until {@link Pending#await()}.
 *
 * <p>What differs between ranks is an error that names ranks and calls, not a hang: see {@link CollectiveLog}.
 *
 * @see #join(World, Backend, Duration)
 */
public final class ProcessGroup implements AutoCloseable {
    /** Kept from the garbage collector. */
    private static final Queue<ProcessGroup> ABANDONED = new ConcurrentLinkedQueue<>();

    private final World world;
    private final CollectiveBackend backend;
    private final Device device;
    private final Rendezvous meeting;
    private final CollectiveLog calls;
    private final C10d c10d;
    private volatile CollectiveFailure failure;
    private final Traffic.Meter meter = new Traffic.Meter();
    private volatile boolean closed;
    private volatile Collective waiting;

    private ProcessGroup(Rendezvous meeting, CollectiveBackend backend, Device device) {
        world = meeting.world();
        this.meeting = meeting;
        this.backend = backend;
        this.device = device;
        calls = new CollectiveLog(meeting);
        requireOneCardEach(meeting.arrive(whereIAm()));
        try {
            c10d = C10d.connect(meeting, backend, device);
        } catch (RuntimeException e) {
            if (e instanceof CollectiveFailure) throw e;
            throw new CollectiveFailure(
                    "rank " + world.rank() + " of " + world.size() + " did not get connected by " + backend + ": "
                            + CollectiveFailure.reason(e),
                    e);
        }
    }

    /**
     * Joins the group of all ranks, which meet at rank 0's port. With NCCL this rank works on the card of its local
     * rank, or on the only one it sees; with Gloo on the CPU.
     *
     * @param timeout for the ranks to arrive, and for each collective
     * @throws CollectiveFailure if the port is in use, a rank does not arrive in time, or ranks do not agree on who
     *     they are
     * @throws IllegalArgumentException if there is no card for this rank
     */
    public static ProcessGroup join(World world, CollectiveBackend backend, Duration timeout) {
        return join(world, backend, backend == CollectiveBackend.NCCL ? DeviceKind.CUDA : DeviceKind.CPU, timeout);
    }

    /** The same; with Gloo and CUDA, ranks of one machine share its cards where there are fewer. */
    public static ProcessGroup join(World world, CollectiveBackend backend, DeviceKind kind, Duration timeout) {
        Device device = device(world, backend, kind);
        return join(Rendezvous.atMaster(world, timeout), backend, device);
    }

    /**
     * Joins the group of ranks that meet in a file, on a file system that all of them see; nothing listens at the
     * master port.
     *
     * @param file does not exist yet, and is deleted at the end
     */
    public static ProcessGroup join(World world, CollectiveBackend backend, Duration timeout, Path file) {
        Device device = device(world, backend, backend == CollectiveBackend.NCCL ? DeviceKind.CUDA : DeviceKind.CPU);
        return join(Rendezvous.inFile(world, timeout, file), backend, device);
    }

    private static ProcessGroup join(Rendezvous meeting, CollectiveBackend backend, Device device) {
        try {
            return new ProcessGroup(meeting, backend, device);
        } catch (RuntimeException e) {
            meeting.close();
            throw e;
        }
    }

    private static Device device(World world, CollectiveBackend backend, DeviceKind kind) {
        if (kind == DeviceKind.CPU) {
            if (backend == CollectiveBackend.NCCL)
                throw new IllegalArgumentException("device of nccl must be cuda, not cpu");
            return Device.cpu();
        }
        int cards = Device.cudaCount();
        if (cards <= 1) return Device.cuda(0); // the only one, which Slurm may have set apart for this rank
        if (backend == CollectiveBackend.GLOO) return Device.cuda(world.localRank() % cards);
        if (world.localRank() >= cards) {
            throw new IllegalArgumentException("nccl needs a card for each rank: local rank " + world.localRank()
                    + " of " + world.localSize() + " has none, as this machine has " + cards);
        }
        return Device.cuda(world.localRank());
    }

    /** This process's number, from 0. */
    public int rank() {
        return world.rank();
    }

    /** How many ranks there are. */
    public int size() {
        return world.size();
    }

    /** Where this process stands. */
    public World world() {
        return world;
    }

    /** What carries the collectives. */
    public CollectiveBackend backend() {
        return backend;
    }

    /** Where this rank computes. */
    public Device device() {
        return device;
    }

    /** Gives every rank the reduction of all ranks' tensors, in place. */
    public void allReduce(Tensor tensor, Reduction reduction) {
        allReduce(tensor, reduction, false).await();
    }

    /** See {@link #allReduce}. */
    public Pending allReduceAsync(Tensor tensor, Reduction reduction) {
        return allReduce(tensor, reduction, true);
    }

    private Pending allReduce(Tensor tensor, Reduction reduction, boolean async) {
        CollectiveChecks.tensor("tensor", tensor, backend, device);
        CollectiveChecks.reducible("tensor", tensor, reduction);
        boolean before = dividesBefore(reduction, tensor);
        return start(
                CollectiveCall.of(name("all-reduce", reduction), tensor),
                () -> {
                    if (before) divide(tensor);
                    return c10d.allReduce(tensor, reduction, async);
                },
                reduction.divides(backend) && !before ? tensor : null);
    }

    /** Gives every rank the root's tensor, in place. */
    public void broadcast(Tensor tensor, int root) {
        broadcast(tensor, root, false).await();
    }

    /** See {@link #broadcast}. */
    public Pending broadcastAsync(Tensor tensor, int root) {
        return broadcast(tensor, root, true);
    }

    private Pending broadcast(Tensor tensor, int root, boolean async) {
        CollectiveChecks.tensor("tensor", tensor, backend, device);
        CollectiveChecks.rank("root", root, size());
        return start(
                CollectiveCall.of("broadcast (root " + root + ")", tensor),
                () -> c10d.broadcast(tensor, root, async),
                null);
    }

    /**
     * Gives every rank all ranks' inputs, one after the other by rank.
     *
     * @param out as many elements as {@link #size()} inputs have
     */
    public void allGather(Tensor out, Tensor in) {
        allGather(out, in, false).await();
    }

    /** See {@link #allGather(Tensor, Tensor)}. */
    public Pending allGatherAsync(Tensor out, Tensor in) {
        return allGather(out, in, true);
    }

    private Pending allGather(Tensor out, Tensor in, boolean async) {
        CollectiveChecks.tensor("out", out, backend, device);
        CollectiveChecks.tensor("in", in, backend, device);
        CollectiveChecks.partsOf("out", out, "in", in, size());
        return start(CollectiveCall.of("all-gather", in), () -> c10d.allGather(out, in, async), null);
    }

    /**
     * Reduces all ranks' inputs, and gives each rank its part of the result: rank 0 the first, and so on.
     *
     * @param in as many elements as {@link #size()} outputs have
     */
    public void reduceScatter(Tensor out, Tensor in, Reduction reduction) {
        reduceScatter(out, in, reduction, false).await();
    }

    /** See {@link #reduceScatter}. */
    public Pending reduceScatterAsync(Tensor out, Tensor in, Reduction reduction) {
        return reduceScatter(out, in, reduction, true);
    }

    private Pending reduceScatter(Tensor out, Tensor in, Reduction reduction, boolean async) {
        CollectiveChecks.tensor("out", out, backend, device);
        CollectiveChecks.tensor("in", in, backend, device);
        CollectiveChecks.partsOf("in", in, "out", out, size());
        CollectiveChecks.reducible("in", in, reduction);
        boolean before = dividesBefore(reduction, in);
        return start(
                CollectiveCall.of(name("reduce-scatter", reduction), out),
                () -> c10d.reduceScatter(out, before ? divided(in) : in, reduction, async),
                reduction.divides(backend) && !before ? out : null);
    }

    /** In fp16 a sum may be beyond the largest number, 65,504, where the average is not. */
    private boolean dividesBefore(Reduction reduction, Tensor tensor) {
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
     * Waits until all ranks are here, and with NCCL until all work queued on their cards is done.
     *
     * @throws CollectiveFailure also if the ranks have not made the same calls until now
     */
    public void barrier() {
        try (var scope = MemoryScope.open()) {
            long mine = calls.fingerprint();
            Tensor extremes = onDevice(new long[] {mine, ~mine});
            start(CollectiveCall.of("barrier", extremes), () -> c10d.allReduce(extremes, Reduction.MAX, false), null)
                    .await();
            device.synchronize();
            long[] found = Tensors.toLongs(extremes); // the largest, and the complement of the smallest
            if (found[0] != ~found[1]) throw parted("at a barrier");
        }
    }

    /**
     * Gives every rank all ranks' values, by rank.
     *
     * @param value null is allowed
     * @throws CollectiveFailure also if the ranks have not made the same calls until now
     */
    public <T extends Serializable> List<T> allGather(T value) {
        return exchange("all-gather of values", value, true, (out, in) -> c10d.allGather(out, in, false));
    }

    /**
     * Gives the root all ranks' values, by rank, and the others an empty list.
     *
     * @param value null is allowed
     * @throws CollectiveFailure also if the ranks have not made the same calls until now
     */
    public <T extends Serializable> List<T> gather(T value, int root) {
        CollectiveChecks.rank("root", root, size());
        boolean here = rank() == root;
        String name = "gather of values (root " + root + ")";
        return exchange(name, value, here, (out, in) -> c10d.gather(out, in, root));
    }

    /**
     * Sends values as bytes, eight to an element, all as long as the longest, once all ranks know how long they are.
     *
     * @param here whether this rank gets them
     * @param send puts together what all ranks give, of which the second tensor is this rank's part
     */
    private <T extends Serializable> List<T> exchange(
            String name, T value, boolean here, BiFunction<Tensor, Tensor, Work> send) {
        byte[] mine = Serialization.bytes(value);
        try (var scope = MemoryScope.open()) {
            int[] lengths = lengths(mine.length);
            int elements = (Arrays.stream(lengths).max().orElseThrow() + Long.BYTES - 1) / Long.BYTES;
            long[] padded = new long[elements];
            ByteBuffer.wrap(Arrays.copyOf(mine, elements * Long.BYTES))
                    .asLongBuffer()
                    .get(padded);
            Tensor in = onDevice(padded);
            Tensor out = torch.zeros(new long[] {here ? (long) elements * size() : 0}, home().options(DType.INT64));
            start(CollectiveCall.of(name, in), () -> send.apply(out, in), null).await();
            return here ? values(Tensors.toLongs(out), lengths, elements) : List.of();
        }
    }

    /** Bytes of each rank's value, of which this is this one's. */
    private int[] lengths(int mine) {
        long fingerprint = calls.fingerprint();
        Tensor head = onDevice(new long[] {mine, fingerprint});
        Tensor heads = torch.zeros(new long[] {2L * size()}, home().options(DType.INT64));
        start(CollectiveCall.of("all-gather of values", head), () -> c10d.allGather(heads, head, false), null)
                .await();
        long[] found = Tensors.toLongs(heads);
        int[] lengths = new int[size()];
        for (int other = 0; other < size(); other++) {
            if (found[2 * other + 1] != fingerprint) throw parted("where values are gathered");
            lengths[other] = (int) found[2 * other];
        }
        return lengths;
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

    /** Where numbers of the group's own are: NCCL knows no others than those on cards. */
    private Device home() {
        return backend == CollectiveBackend.NCCL ? device : Device.cpu();
    }

    private Tensor onDevice(long[] values) {
        return Tensors.of(values, values.length).to(home().toTorch(), DType.INT64.scalarType());
    }

    private Pending start(CollectiveCall call, Supplier<Work> work, Tensor toDivide) {
        synchronized (calls) { // what is noted first starts first
            if (closed) throw new IllegalStateException("the process group is closed");
            long number = 0;
            try (var scope = MemoryScope.open()) {
                number = calls.next(call);
                meter.count(call, size());
                Work started = work.get();
                // NCCL gives none for what it has put into the current stream: there is nothing to wait for.
                return new Collective(started == null ? null : MemoryScope.keep(started), number, call, toDivide);
            } catch (RuntimeException e) {
                throw failure(e, number, call);
            }
        }
    }

    private CollectiveFailure failure(RuntimeException e, long number, CollectiveCall call) {
        if (e instanceof CollectiveFailure known) return broken(known);
        return broken(new CollectiveFailure(
                "collective %d, %s, failed on rank %d of %d: %s%s"
                        .formatted(number, call, rank(), size(), CollectiveFailure.reason(e), calls.difference()),
                e));
    }

    /** Notes the first failure; what comes after it is its consequence. */
    private CollectiveFailure broken(CollectiveFailure by) {
        if (failure == null) failure = by;
        return by;
    }

    /** The first collective that failed, or null. */
    public CollectiveFailure failure() {
        return failure;
    }

    private CollectiveFailure parted(String where) {
        String difference = calls.difference();
        return broken(new CollectiveFailure(
                "ranks have called different collectives, as seen on rank " + rank() + " " + where + difference));
    }

    /** What this rank has handed to collectives until now. */
    public Traffic traffic() {
        synchronized (calls) {
            return meter.traffic();
        }
    }

    /** The collective that a thread of this rank waits in, or null. */
    public String waitingIn() {
        Collective current = waiting;
        return current == null ? calls.agreeing() : "collective " + current.number + ", " + current.call;
    }

    /** How many collectives this rank has called. */
    public long calls() {
        return calls.count();
    }

    private final class Collective implements Pending {
        private final Work work;
        private final long number;
        private final CollectiveCall call;
        private final Tensor toDivide; // null where nothing is left to do
        private boolean ended;
        private CollectiveFailure failed;

        Collective(Work work, long number, CollectiveCall call, Tensor toDivide) {
            this.work = work;
            this.number = number;
            this.call = call;
            this.toDivide = toDivide == null ? null : MemoryScope.keep(new Tensor(toDivide));
        }

        @Override
        public synchronized void await() {
            if (failed != null) throw failed;
            if (ended) return;
            waiting = this;
            try {
                if (work != null) work._wait();
                if (toDivide != null) divide(toDivide);
            } catch (RuntimeException e) {
                failed = failure(e, number, call);
                throw failed;
            } finally {
                waiting = null;
                ended = true;
                if (work != null) work.close();
                if (toDivide != null) toDivide.close();
            }
        }

        @Override
        public synchronized boolean isDone() {
            return ended || work == null || work.isCompleted();
        }
    }

    /**
     * Leaves the group once all ranks are about to, or at once where a collective has failed.
     *
     * @throws CollectiveFailure if the ranks have not made the same calls, or one does not come to its end within the
     *     timeout
     */
    @Override
    public void close() {
        if (closed) return;
        closed = true;
        if (failure != null) {
            abandon();
            return;
        }
        try {
            leaveTogether();
        } catch (CollectiveFailure e) {
            abandon();
            throw broken(e);
        }
        c10d.close();
        meeting.close();
    }

    /**
     * Gives up without a word to the others, who notice: this rank has failed. Something may still be stuck in native
     * code, which freeing the group would wait for.
     */
    public void abandon() {
        closed = true;
        ABANDONED.add(this);
    }

    private void leaveTogether() {
        String mine = calls.count() + " " + calls.fingerprint();
        meeting.post("leaving", mine);
        for (int other = 0; other < size(); other++) {
            String theirs = meeting.read("leaving", other, meeting.timeout());
            if (theirs == null) {
                throw broken(new CollectiveFailure("rank " + other + " did not come to its end within "
                        + Rendezvous.text(meeting.timeout()) + " after rank " + rank() + calls.difference()));
            }
            if (!theirs.equals(mine)) throw parted("at the end");
        }
        meeting.post("left", "");
        if (rank() == 0) { // the store goes with rank 0
            for (int other = 1; other < size(); other++) meeting.read("left", other, meeting.timeout());
        }
    }

    private String whereIAm() {
        String host = Host.name();
        return host + " " + (device.isCuda() ? Host.card(device) : "cpu");
    }

    private void requireOneCardEach(List<String> places) {
        if (backend == CollectiveBackend.GLOO) return;
        for (int other = 0; other < size(); other++) {
            if (other != rank() && places.get(other).equals(places.get(rank()))) {
                throw new IllegalArgumentException("nccl needs a card for each rank: ranks " + Math.min(rank(), other)
                        + " and " + Math.max(rank(), other) + " are on the same, " + places.get(rank()));
            }
        }
    }

    private static String name(String operation, Reduction reduction) {
        return operation + " (" + reduction.name().toLowerCase(Locale.ROOT) + ")";
    }
}
