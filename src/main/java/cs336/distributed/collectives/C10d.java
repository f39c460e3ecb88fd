package cs336.distributed.collectives;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
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
 * PyTorch's process group ({@code c10d}). It starts collectives without checking their arguments.
 *
 * <p>NCCL puts a synchronous collective into the current stream; its {@link Work} is null. An asynchronous one runs on
 * a separate stream.
 */
final class C10d {
    private final CollectiveBackend backend;
    private final org.bytedeco.pytorch.Backend group;
    private final CollectiveOptions synchronous;
    private final CollectiveOptions asynchronous;

    private C10d(CollectiveBackend backend, org.bytedeco.pytorch.Backend group) {
        this.backend = backend;
        this.group = group;
        synchronous = CollectiveOptions.of(backend, false);
        asynchronous = CollectiveOptions.of(backend, true);
    }

    /** Connects to all other ranks; blocks until they are connected. */
    static C10d connect(Rendezvous rendezvous, CollectiveBackend backend, Device device) {
        return new C10d(
                backend,
                backend == CollectiveBackend.GLOO ? Gloo.connect(rendezvous) : Nccl.connect(rendezvous, device));
    }

    Work allReduce(Tensor tensor, Reduction reduction, boolean async) {
        return group.allreduce(
                new TensorVector(tensor), options(async).allReduce.get(reduction));
    }

    Work broadcast(Tensor tensor, int root, boolean async) {
        return group.broadcast(
                new TensorVector(tensor), new BroadcastOptions().rootRank(root).asyncOp(async));
    }

    /**
     * Starts an all-gather. Tensors are flattened, because c10d ends all ranks if it cannot split the first dimension
     * of the output.
     */
    Work allGather(Tensor out, Tensor in, boolean async) {
        return group._allgather_base(out.view(-1), in.view(-1), options(async).allGather);
    }

    /** Starts asynchronous all-gathers: one launch with NCCL, one per pair with Gloo. */
    List<Work> allGather(List<Tensor> outs, List<Tensor> ins) {
        if (backend == CollectiveBackend.GLOO) {
            return IntStream.range(0, ins.size())
                    .mapToObj(i -> allGather(outs.get(i), ins.get(i), true))
                    .toList();
        }
        return List.of(group.allgather_into_tensor_coalesced(flat(outs), flat(ins), asynchronous.allGather));
    }

    /** Starts asynchronous reduce-scatters; see {@link #allGather(List, List)}. */
    List<Work> reduceScatter(List<Tensor> outs, List<Tensor> ins, Reduction reduction) {
        if (backend == CollectiveBackend.GLOO) {
            return IntStream.range(0, ins.size())
                    .mapToObj(i -> reduceScatter(outs.get(i), ins.get(i), reduction, true))
                    .toList();
        }
        return List.of(group.reduce_scatter_tensor_coalesced(
                flat(outs), flat(ins), asynchronous.reduceScatter.get(reduction)));
    }

    private static TensorVector flat(List<Tensor> tensors) {
        return new TensorVector(tensors.stream().map(tensor -> tensor.view(-1)).toArray(Tensor[]::new));
    }

    /** @param out empty on every rank but the root */
    Work gather(Tensor out, Tensor in, int root) {
        boolean isRoot = group.getRank() == root;
        // The bindings wrap this vector into c10d's list of lists; limit(0) makes that list empty.
        TensorVector outs = isRoot ? out.chunk(group.getSize()) : new TensorVector().limit(0);
        return group.gather(
                outs, new TensorVector(in), new GatherOptions().rootRank(root).asyncOp(false));
    }

    /** Starts a reduce-scatter of flattened tensors; see {@link #allGather}. */
    Work reduceScatter(Tensor out, Tensor in, Reduction reduction, boolean async) {
        return group._reduce_scatter_base(
                out.view(-1), in.view(-1), options(async).reduceScatter.get(reduction));
    }

    /** Waits for collectives in progress and stops the backend's threads. */
    void close() {
        if (backend == CollectiveBackend.NCCL) {
            group.shutdown();
        }
        group.close();
    }

    private CollectiveOptions options(boolean async) {
        return async ? asynchronous : synchronous;
    }

    /** The options of each collective, created once because a step starts hundreds of them. */
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
