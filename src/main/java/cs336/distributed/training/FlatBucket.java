package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** A flat tensor that holds several parameters as views, and of which this rank owns one shard. */
final class FlatBucket implements AutoCloseable {
    /**
     * The part of a parameter in this rank's shard.
     *
     * @param values a leaf tensor that the optimizer updates
     */
    private record LocalShard(FlatLayout.ParameterShard position, Tensor parameter, Tensor values) {}

    private final ProcessGroup group;
    private final FlatLayout.ShardedBucket layout;
    private final Tensor values;
    private final Tensor localValues;
    private final Map<String, Tensor> parameters = new LinkedHashMap<>();
    private final List<LocalShard> shards = new ArrayList<>();
    private PendingCollective pending;

    /** Moves the parameters of a layout, with their values, into a bucket. */
    FlatBucket(FlatLayout.ShardedBucket layout, Map<String, Tensor> all, ProcessGroup group) {
        this.group = group;
        this.layout = layout;
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor any = all.get(layout.slots().get(0).name());
            values = MemoryScope.keep(torch.zeros(new long[] {layout.elements()}, any.options()));
            localValues = shardOf(values);
            for (FlatLayout.ParameterSlot slot : layout.slots()) {
                Tensor parameter = all.get(slot.name());
                Tensor view = view(values, slot.offset(), slot.elements(), Tensors.shape(parameter));
                view.copy_(parameter);
                parameter.set_data(view);
                view.close();
                parameters.put(slot.name(), parameter);
            }
            for (FlatLayout.ParameterShard part : layout.shard(group.rank())) {
                Tensor leaf = view(values, part.offsetInBucket(), part.elements(), part.elements());
                leaf.set_requires_grad(true);
                shards.add(new LocalShard(part, all.get(part.name()), leaf));
            }
        }
    }

    private Tensor shardOf(Tensor flat) {
        return view(flat, group.rank() * layout.shardElements(), layout.shardElements(), layout.shardElements());
    }

    private static Tensor view(Tensor flat, long offset, long elements, long... shape) {
        return MemoryScope.keep(flat.narrow(0, offset, elements).view(shape).detach());
    }

    /** Returns the parameters of this bucket by name. */
    Map<String, Tensor> parameters() {
        return Collections.unmodifiableMap(parameters);
    }

    /** Returns this rank's shard by parameter name. */
    Map<String, Tensor> local() {
        var leaves = new LinkedHashMap<String, Tensor>();
        shards.forEach(shard -> leaves.put(shard.position.name(), shard.values));
        return leaves;
    }

    /** Returns the offset of this rank's shard within a parameter; null if it has none. */
    Long offset(String name) {
        for (LocalShard shard : shards) {
            if (shard.position.name().equals(name)) {
                return shard.position.offsetInParameter();
            }
        }
        return null;
    }

    /** Returns the bytes of a rank's shard, without padding. */
    long bytes(int rank) {
        return values.element_size()
                * layout.shard(rank).stream()
                        .mapToLong(FlatLayout.ParameterShard::elements)
                        .sum();
    }

    /**
     * Returns a collective whose flat tensor of gradients has the layout of this bucket.
     *
     * @param trainable parameters of the model, including some in this bucket
     * @return null if none is in this bucket
     */
    ReduceScatterBucket gradientCollective(List<Tensor> trainable) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            var indices = new ArrayList<Integer>();
            var members = new ArrayList<Tensor>();
            var views = new ArrayList<Tensor>();
            Tensor flat = torch.zeros_like(values);
            for (FlatLayout.ParameterSlot slot : layout.slots()) {
                Tensor parameter = parameters.get(slot.name());
                for (int i = 0; i < trainable.size(); i++) {
                    if (trainable.get(i).is_same(parameter)) {
                        indices.add(i);
                        members.add(parameter);
                        views.add(view(flat, slot.offset(), slot.elements(), Tensors.shape(parameter)));
                    }
                }
            }
            if (indices.isEmpty()) {
                return null;
            }
            int[] at = indices.stream().mapToInt(Integer::intValue).toArray();
            var bucket = new GradientBucket(at, members, views, MemoryScope.keep(flat));
            return new ReduceScatterBucket(bucket, shardOf(flat));
        }
    }

    /** Assigns the gradients of trainable parameters to this rank's leaves. */
    void assignGradients() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            for (LocalShard shard : shards) {
                Tensor gradient = shard.parameter.grad();
                if (gradient.defined() && shard.parameter.requires_grad()) {
                    GradientCollective.requireDense(shard.position.name(), gradient);
                    Tensor part = gradient.reshape(-1)
                            .narrow(0, shard.position.offsetInParameter(), shard.position.elements());
                    shard.values.mutable_grad().put(part);
                }
            }
        }
    }

    /** Clears the gradients of this rank's leaves, which otherwise outlive those of the parameters. */
    void clearGradients() {
        shards.forEach(shard -> shard.values.mutable_grad().reset());
    }

    /** Starts an in-place all-gather of all shards, and tells autograd that it changes the parameters. */
    void startAllGather() {
        parameters.values().stream()
                .filter(Tensor::requires_grad)
                .forEach(parameter -> parameter.unsafeGetTensorImpl().bump_version());
        pending = group.allGatherAsync(values, localValues);
    }

    /** Waits for the all-gather; see {@link PendingCollective#await}. */
    void await() {
        if (pending != null) {
            pending.await();
            pending = null;
        }
    }

    /** Gives each parameter its own memory again, and closes the bucket. */
    void undo() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            parameters.values().forEach(parameter -> parameter.set_data(parameter.clone()));
        }
        close();
    }

    /** Frees the memory of this object; the parameters remain valid. */
    @Override
    public void close() {
        shards.forEach(shard -> shard.values.close());
        localValues.close();
        values.close();
    }
}
