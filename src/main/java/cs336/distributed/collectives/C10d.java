package cs336.distributed.collectives;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.EnumMap;
import java.util.Map;
import org.bytedeco.pytorch.AllgatherOptions;
import org.bytedeco.pytorch.AllreduceOptions;
import org.bytedeco.pytorch.BroadcastOptions;
import org.bytedeco.pytorch.GatherOptions;
import org.bytedeco.pytorch.ReduceOp;
import org.bytedeco.pytorch.ReduceScatterOptions;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.Work;

/**
 * PyTorch's process group: starts collectives, without a look at what it is given. A collective that is not
 * asynchronous NCCL puts into the current stream itself, and the {@link Work} is null; the others get a stream of their
 * own beside it.
 */
final class C10d {
    private final CollectiveBackend backend;
    private final org.bytedeco.pytorch.Backend group;
    private final CollectiveOptions now;
    private final CollectiveOptions later;

    private C10d(CollectiveBackend backend, org.bytedeco.pytorch.Backend group) {
        this.backend = backend;
        this.group = group;
        now = CollectiveOptions.of(backend, false);
        later = CollectiveOptions.of(backend, true);
    }

    /** Connects all ranks. */
    static C10d connect(Rendezvous meeting, CollectiveBackend backend, Device device) {
        return new C10d(
                backend, backend == CollectiveBackend.GLOO ? Gloo.connect(meeting) : Nccl.connect(meeting, device));
    }

    Work allReduce(Tensor tensor, Reduction reduction, boolean async) {
        return group.allreduce(
                new TensorVector(tensor), options(async).allReduce.get(reduction));
    }

    Work broadcast(Tensor tensor, int root, boolean async) {
        return group.broadcast(
                new TensorVector(tensor), new BroadcastOptions().rootRank(root).asyncOp(async));
    }

    Work allGather(Tensor out, Tensor in, boolean async) {
        return group._allgather_base(out, in, options(async).allGather);
    }

    /** @param out without elements where this rank is not the root */
    Work gather(Tensor out, Tensor in, int root) {
        boolean here = group.getRank() == root;
        // The bindings make c10d's list of lists of the one list, and an empty one where that is said to be of length
        // 0.
        TensorVector outs = here ? out.chunk(group.getSize()) : new TensorVector().limit(0);
        return group.gather(
                outs, new TensorVector(in), new GatherOptions().rootRank(root).asyncOp(false));
    }

    Work reduceScatter(Tensor out, Tensor in, Reduction reduction, boolean async) {
        return group._reduce_scatter_base(out, in, options(async).reduceScatter.get(reduction));
    }

    /** Ends its threads; waits for collectives under way. */
    void close() {
        if (backend == CollectiveBackend.NCCL) group.shutdown();
        group.close();
    }

    private CollectiveOptions options(boolean async) {
        return async ? later : now;
    }

    /** Made once: there may be hundreds of collectives in a step. */
    private record CollectiveOptions(
            Map<Reduction, AllreduceOptions> allReduce,
            Map<Reduction, ReduceScatterOptions> reduceScatter,
            AllgatherOptions allGather) {
        static CollectiveOptions of(CollectiveBackend backend, boolean async) {
            var options = new CollectiveOptions(
                    new EnumMap<>(Reduction.class),
                    new EnumMap<>(Reduction.class),
                    MemoryScope.keep(new AllgatherOptions().asyncOp(async)));
            for (Reduction reduction : Reduction.values()) {
                var operation = new ReduceOp(reduction.on(backend));
                options.allReduce.put(
                        reduction,
                        MemoryScope.keep(
                                new AllreduceOptions().reduceOp(operation).asyncOp(async)));
                options.reduceScatter.put(
                        reduction,
                        MemoryScope.keep(
                                new ReduceScatterOptions().reduceOp(operation).asyncOp(async)));
            }
            return options;
        }
    }
}
