package cs336.distributed.training;

import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** Shards of {@link Sharding.Broadcast}: each rank owns whole parameters and broadcasts each one separately. */
final class BroadcastShards implements Shards {
    private final ProcessGroup group;
    private final Map<String, Tensor> parameters;
    private final ShardAssignment assignment;
    private final Map<String, Tensor> local = new LinkedHashMap<>();
    private final List<PendingCollective> pending = new ArrayList<>();

    /**
     * Creates the shards of a parameter group.
     *
     * @param assignment assignment of all parameters of the optimizer, including these
     */
    BroadcastShards(Map<String, Tensor> parameters, ShardAssignment assignment, ProcessGroup group) {
        this.group = group;
        this.parameters = parameters;
        this.assignment = assignment;
        parameters.forEach((name, parameter) -> {
            if (owner(name) == group.rank()) {
                local.put(name, parameter);
            }
        });
    }

    private int owner(String name) {
        return assignment.owners().get(name);
    }

    @Override
    public Map<String, Tensor> local() {
        return Collections.unmodifiableMap(local);
    }

    @Override
    public long offset(String name) {
        return 0;
    }

    @Override
    public long[] bytesPerRank() {
        var bytes = new long[group.size()];
        parameters.forEach((name, parameter) -> bytes[owner(name)] += parameter.nbytes());
        return bytes;
    }

    @Override
    public List<GradientCollective> gradientCollectives(List<Tensor> trainable) {
        throw new IllegalArgumentException(
                "sharding of an optimizer for reduce-scattered gradients must be all-gather, not broadcast");
    }

    /** Does nothing: this rank's optimizer holds the parameters themselves. */
    @Override
    public void assignGradients() {}

    @Override
    public void clearGradients() {}

    @Override
    public void startSynchronization() {
        parameters.forEach((name, parameter) -> {
            if (parameter.requires_grad()) {
                if (owner(name) != group.rank()) {
                    parameter.unsafeGetTensorImpl().bump_version(); // autograd does not notice the broadcast
                }
                pending.add(group.broadcastAsync(parameter, owner(name)));
            }
        });
    }

    @Override
    public void await() {
        pending.forEach(PendingCollective::await);
        pending.clear();
    }

    /** Returns an action that waits for all parameters of the group, since each broadcast is small. */
    @Override
    public Runnable awaiting(Tensor parameter) {
        return this::await;
    }

    @Override
    public void undo() {}

    @Override
    public void close() {}
}
