package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** {@link Sharding.Broadcast}: each parameter is owned as a whole, and broadcast by itself. */
final class BroadcastShards implements Shards {
    private final ProcessGroup group;
    private final Map<String, Tensor> parameters;
    private final ShardAssignment assignment;
    private final Map<String, Tensor> own = new LinkedHashMap<>();
    private final List<PendingCollective> sent = new ArrayList<>();

    /** @param assignment of all groups of the optimizer; knows these parameters already */
    BroadcastShards(Map<String, Tensor> parameters, ShardAssignment assignment, ProcessGroup group) {
        this.group = group;
        this.parameters = parameters;
        this.assignment = assignment;
        parameters.forEach((name, parameter) -> {
            if (owner(name) == group.rank()) {
                own.put(name, parameter);
            }
        });
    }

    private int owner(String name) {
        return assignment.owners().get(name);
    }

    @Override
    public Map<String, Tensor> own() {
        return Collections.unmodifiableMap(own);
    }

    @Override
    public long first(String name) {
        return 0;
    }

    @Override
    public long[] bytes() {
        var bytes = new long[group.size()];
        parameters.forEach((name, parameter) -> bytes[owner(name)] += parameter.nbytes());
        return bytes;
    }

    @Override
    public List<GradientCollective> gradients(List<Tensor> learning) {
        throw new IllegalArgumentException(
                "gradients can only be scattered into flat shards: the optimizer's sharding must be all-gather, not broadcast");
    }

    /** They are where they belong. */
    @Override
    public void bringGradients() {}

    @Override
    public void dropGradients() {}

    @Override
    public void send() {
        parameters.forEach((name, parameter) -> {
            if (parameter.requires_grad()) {
                sent.add(group.broadcastAsync(parameter, owner(name)));
            }
        });
    }

    @Override
    public void arrive() {
        sent.forEach(PendingCollective::await);
        sent.clear();
    }

    /** All of them at once: nobody waits for a part of several hundred. */
    @Override
    public Runnable arrivalOf(Tensor parameter) {
        return this::arrive;
    }

    @Override
    public void giveUp() {}

    @Override
    public void close() {}
}
