package cs336.distributed.training;

import cs336.basics.Checkpoint;
import cs336.basics.Optimizer;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.training.ShardedOptimizer.ShardedGroup;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The state of a {@link ShardedOptimizer}. This class gathers the shards of all ranks into the state of an optimizer
 * without shards, and splits such a state into shards again. A state therefore fits any number of ranks and any
 * {@link Sharding}.
 */
final class ShardedState {
    /** Offset of a tensor that is not a shard, such as a step count. */
    private static final long NOT_SHARDED = -1;

    private final ProcessGroup group;
    private final Map<String, Tensor> parameters;
    private final List<ShardedGroup> shardedGroups;

    /**
     * Creates a view of an optimizer's state.
     *
     * @param parameters the optimizer's map of the parameters of all ranks by name, to which it may add some later
     */
    ShardedState(ProcessGroup group, Map<String, Tensor> parameters, List<ShardedGroup> shardedGroups) {
        this.group = group;
        this.parameters = parameters;
        this.shardedGroups = shardedGroups;
    }

    /**
     * The description of a state tensor of one rank.
     *
     * @param offset offset of its first element in the tensor of the whole parameter, or {@link #NOT_SHARDED}
     */
    private record StateTensor(String key, long offset, String dtype, long[] shape) implements Serializable {
        private static final long serialVersionUID = 1;
    }

    /** Returns the state of this rank's shard. */
    Map<String, Tensor> local() {
        var state = new LinkedHashMap<String, Tensor>();
        shardedGroups.forEach(sharded -> state.putAll(sharded.optimizer().state()));
        return state;
    }

    /**
     * Gathers the state of all ranks on rank 0. All ranks must call it.
     *
     * @return on rank 0 tensors on the CPU in the caller's memory scope; on the other ranks an empty map
     */
    Map<String, Tensor> gather() {
        Map<String, Tensor> whole = new LinkedHashMap<>();
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Map<String, Tensor> local = local();
            var descriptions = new ArrayList<StateTensor>();
            local.forEach((key, tensor) -> descriptions.add(
                    new StateTensor(key, offset(key, tensor), DType.of(tensor).toString(), Tensors.shape(tensor))));
            List<ArrayList<StateTensor>> all = group.allGather(descriptions);
            for (int rank = 0; rank < all.size(); rank++) {
                for (StateTensor description : all.get(rank)) {
                    try (var each = MemoryScope.open()) {
                        receive(description, rank, local, whole);
                    }
                }
            }
            whole.values().forEach(scope::escape);
        }
        return whole;
    }

    private long offset(String key, Tensor tensor) {
        String name = parameterOf(key);
        for (ShardedGroup sharded : shardedGroups) {
            Tensor shard = sharded.shards().local().get(name);
            boolean sameShape = shard != null && Arrays.equals(Tensors.shape(shard), Tensors.shape(tensor));
            if (sameShape && tensor.is_floating_point()) { // a step count may have the shape of a small shard
                return sharded.shards().offset(name);
            }
        }
        return NOT_SHARDED;
    }

    private void receive(StateTensor description, int rank, Map<String, Tensor> local, Map<String, Tensor> whole) {
        DType dtype = DType.parse(description.dtype);
        Device device = group.device();
        Tensor sent = rank == group.rank()
                ? local.get(description.key)
                        .to(device.toTorch(), dtype.scalarType())
                        .contiguous()
                        .reshape(-1)
                : torch.zeros(new long[] {elements(description.shape)}, device.options(dtype));
        group.broadcast(sent, rank);
        if (group.rank() != 0) {
            return;
        }
        Tensor onCpu = sent.to(Device.cpu().toTorch(), dtype.scalarType());
        if (description.offset == NOT_SHARDED) {
            whole.computeIfAbsent(
                    description.key, k -> MemoryScope.keep(onCpu.clone().reshape(description.shape)));
        } else {
            long[] shape = Tensors.shape(parameters.get(parameterOf(description.key)));
            Tensor all = whole.computeIfAbsent(
                    description.key,
                    k -> MemoryScope.keep(torch.zeros(shape, Device.cpu().options(dtype))));
            all.reshape(-1).narrow(0, description.offset, onCpu.numel()).copy_(onCpu);
        }
    }

    private static long elements(long[] shape) {
        return Arrays.stream(shape).reduce(1, Math::multiplyExact);
    }

    /** Returns the name of a state tensor's parameter: {@code layers.0.ln1.weight} of {@code layers.0.ln1.weight.m}. */
    static String parameterOf(String key) {
        int dot = key.lastIndexOf('.');
        return dot < 0 ? key : key.substring(0, dot);
    }

    /** Checks on this rank that a whole state can be loaded; see {@link Optimizer#requireLoadable}. */
    void requireLoadable(Map<String, Tensor> whole) {
        try (var scope = MemoryScope.open()) {
            shardedGroups.forEach(sharded -> sharded.optimizer().requireLoadable(shardOf(whole, sharded.shards())));
        }
    }

    /**
     * Loads a whole state into the shards of all ranks. All ranks must call it with the same state.
     *
     * @throws IllegalArgumentException on every rank, if the state does not fit; then nothing changes on any rank
     */
    void load(Map<String, Tensor> whole) {
        String failure = "";
        try {
            requireLoadable(whole);
        } catch (IllegalArgumentException e) {
            failure = e.getMessage();
        }
        for (String message : group.allGather(failure)) {
            if (!message.isEmpty()) {
                throw new IllegalArgumentException(message);
            }
        }
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            shardedGroups.forEach(sharded -> sharded.optimizer().loadState(shardOf(whole, sharded.shards())));
        }
    }

    /** Returns this rank's shard of a whole state. */
    private Map<String, Tensor> shardOf(Map<String, Tensor> whole, Shards shards) {
        var shard = new LinkedHashMap<String, Tensor>();
        whole.forEach((key, tensor) -> {
            String name = parameterOf(key);
            Tensor parameter = parameters.get(name);
            if (parameter == null) {
                throw new IllegalArgumentException("state has " + key + ", but there is no parameter " + name);
            }
            Tensor local = shards.local().get(name);
            if (local == null) {
                return;
            }
            boolean sameShape = Arrays.equals(Tensors.shape(tensor), Tensors.shape(parameter));
            if (!sameShape && tensor.numel() != 1) {
                throw new IllegalArgumentException(
                        "state " + key + " must have the parameter's shape " + Arrays.toString(Tensors.shape(parameter))
                                + ", not " + Arrays.toString(Tensors.shape(tensor)));
            }
            shard.put(
                    key,
                    sameShape && local.dim() > 0
                            ? tensor.reshape(-1)
                                    .narrow(0, shards.offset(name), local.numel())
                                    .view(Tensors.shape(local))
                            : tensor);
        });
        return shard;
    }

    /**
     * Gathers the state of all ranks, and saves it with the parameters in one file. All ranks must call it; rank 0
     * writes.
     *
     * @throws IOException on every rank, if the file cannot be written
     */
    void save(Path file, Map<String, Tensor> parameters, String kind, Map<String, String> metadata) throws IOException {
        try (var scope = MemoryScope.open()) {
            Map<String, Tensor> whole = gather();
            FileWork.onRankZero(group, () -> {
                try {
                    Checkpoint.save(file, parameters, kind, whole, metadata);
                } catch (IOException e) {
                    throw new IOException("checkpoint " + file + " could not be written: " + e.getMessage(), e);
                }
            });
        }
    }
}
