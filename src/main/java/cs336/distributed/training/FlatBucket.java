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

/** Parameters as views into one flat tensor, of which this rank owns a stretch. */
final class FlatBucket implements AutoCloseable {
    /**
     * A part of a parameter that is this rank's own.
     *
     * @param values a leaf that an optimizer updates
     */
    private record Own(FlatLayout.ParameterShard piece, Tensor parameter, Tensor values) {}

    private final ProcessGroup group;
    private final FlatLayout.ShardedBucket layout;
    private final Tensor values;
    private final Tensor ownValues;
    private final Map<String, Tensor> parameters = new LinkedHashMap<>();
    private final List<Own> own = new ArrayList<>();
    private PendingCollective sent;

    /** Moves the parameters of a layout into a bucket: what they held goes with them. */
    FlatBucket(FlatLayout.ShardedBucket layout, Map<String, Tensor> all, ProcessGroup group) {
        this.group = group;
        this.layout = layout;
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            Tensor any = all.get(layout.slots().get(0).name());
            values = MemoryScope.keep(torch.zeros(new long[] {layout.elements()}, any.options()));
            ownValues = stretch(values);
            for (FlatLayout.ParameterSlot slot : layout.slots()) {
                Tensor parameter = all.get(slot.name());
                Tensor place = view(values, slot.offset(), slot.elements(), Tensors.shape(parameter));
                place.copy_(parameter);
                parameter.set_data(place);
                place.close();
                parameters.put(slot.name(), parameter);
            }
            for (FlatLayout.ParameterShard piece : layout.shard(group.rank())) {
                Tensor leaf = view(values, piece.offsetInBucket(), piece.elements(), piece.elements());
                leaf.set_requires_grad(true);
                own.add(new Own(piece, all.get(piece.name()), leaf));
            }
        }
    }

    private Tensor stretch(Tensor flat) {
        return view(flat, group.rank() * layout.shardElements(), layout.shardElements(), layout.shardElements());
    }

    private static Tensor view(Tensor flat, long offset, long numbers, long... shape) {
        return MemoryScope.keep(flat.narrow(0, offset, numbers).view(shape).detach());
    }

    /** The parameters in it, by name. */
    Map<String, Tensor> parameters() {
        return Collections.unmodifiableMap(parameters);
    }

    /** What this rank owns of them, by the parameter's name. */
    Map<String, Tensor> own() {
        var leaves = new LinkedHashMap<String, Tensor>();
        own.forEach(o -> leaves.put(o.piece.name(), o.values));
        return leaves;
    }

    /** The first number of a parameter that is this rank's own; null if none is. */
    Long first(String name) {
        for (Own o : own) {
            if (o.piece.name().equals(name)) {
                return o.piece.offsetInParameter();
            }
        }
        return null;
    }

    /** Bytes of the parameters that a rank owns. */
    long bytes(int rank) {
        return values.element_size()
                * layout.shard(rank).stream()
                        .mapToLong(FlatLayout.ParameterShard::elements)
                        .sum();
    }

    /**
     * A second flat tensor, of the same layout, for gradients.
     *
     * @param learning parameters, of which some are in this bucket
     * @return null if none is
     */
    ReduceScatterBucket gradients(List<Tensor> learning) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            var places = new ArrayList<Integer>();
            var members = new ArrayList<Tensor>();
            var views = new ArrayList<Tensor>();
            Tensor flat = torch.zeros_like(values);
            for (FlatLayout.ParameterSlot slot : layout.slots()) {
                Tensor parameter = parameters.get(slot.name());
                for (int i = 0; i < learning.size(); i++) {
                    if (learning.get(i).is_same(parameter)) {
                        places.add(i);
                        members.add(parameter);
                        views.add(view(flat, slot.offset(), slot.elements(), Tensors.shape(parameter)));
                    }
                }
            }
            if (places.isEmpty()) {
                return null;
            }
            int[] at = places.stream().mapToInt(Integer::intValue).toArray();
            var bucket = new GradientBucket(at, members, views, MemoryScope.keep(flat));
            return new ReduceScatterBucket(bucket, stretch(flat));
        }
    }

    /** Gives this rank's leaves the gradients of the parameters, where those have any and are to be updated. */
    void bringGradients() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            for (Own o : own) {
                Tensor gradient = o.parameter.grad();
                if (gradient.defined() && o.parameter.requires_grad()) {
                    Tensor row = gradient.reshape(-1).narrow(0, o.piece.offsetInParameter(), o.piece.elements());
                    o.values.mutable_grad().put(row);
                }
            }
        }
    }

    /** Takes the gradients from this rank's leaves, so that they do not outlive those of the parameters. */
    void dropGradients() {
        own.forEach(o -> o.values.mutable_grad().reset());
    }

    /** Begins to gather all ranks' stretches, in place. */
    void send() {
        sent = group.allGatherAsync(values, ownValues);
    }

    /** Returns once what was sent may be used; see {@link PendingCollective#await}. */
    void arrive() {
        if (sent != null) {
            sent.await();
            sent = null;
        }
    }

    /** Moves the parameters out again, each into memory of its own, and closes the bucket. */
    void giveUp() {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            parameters.values().forEach(parameter -> parameter.set_data(parameter.clone()));
        }
        close();
    }

    /** Frees what is only this object's; the parameters stay where they are. */
    @Override
    public void close() {
        own.forEach(o -> o.values.close());
        ownValues.close();
        values.close();
    }
}
