package cs336.distributed.training;

import cs336.distributed.collectives.ProcessGroup;
import cs336.torch.DType;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** {@link Sharding.AllGather}: parameters in flat buckets, of which each rank owns equal stretches. */
final class AllGatherShards implements Shards {
    private static final double MB = 1e6;

    private final ProcessGroup group;
    private final List<FlatBucket> buckets = new ArrayList<>();
    private final Map<String, Tensor> own = new LinkedHashMap<>();

    AllGatherShards(Map<String, Tensor> parameters, double bucketMb, ProcessGroup group) {
        this.group = group;
        Map<DType, Map<String, Long>> sizes = new EnumMap<>(DType.class); // types do not mix in a flat tensor
        parameters.forEach((name, parameter) -> sizes.computeIfAbsent(DType.of(parameter), t -> new LinkedHashMap<>())
                .put(name, parameter.numel()));
        sizes.forEach((dtype, ofType) -> {
            long capacity = (long) (bucketMb * MB / dtype.bytes());
            for (FlatLayout.ShardedBucket bucket :
                    FlatLayout.of(ofType, capacity, group.size()).buckets()) {
                buckets.add(new FlatBucket(bucket, parameters, group));
            }
        });
        buckets.forEach(bucket -> own.putAll(bucket.own()));
    }

    @Override
    public Map<String, Tensor> own() {
        return Collections.unmodifiableMap(own);
    }

    @Override
    public long first(String name) {
        for (FlatBucket bucket : buckets) {
            Long first = bucket.first(name);
            if (first != null) {
                return first;
            }
        }
        throw new IllegalArgumentException("rank " + group.rank() + " owns nothing of " + name);
    }

    @Override
    public long[] bytes() {
        var bytes = new long[group.size()];
        for (int rank = 0; rank < bytes.length; rank++) {
            for (FlatBucket bucket : buckets) {
                bytes[rank] += bucket.bytes(rank);
            }
        }
        return bytes;
    }

    @Override
    public List<GradientCollective> gradients(List<Tensor> learning) {
        var messages = new ArrayList<GradientCollective>();
        for (FlatBucket bucket : buckets) {
            ReduceScatterBucket message = bucket.gradients(learning);
            if (message != null) {
                messages.add(0, message);
            }
        }
        return messages;
    }

    @Override
    public void bringGradients() {
        buckets.forEach(FlatBucket::bringGradients);
    }

    @Override
    public void dropGradients() {
        buckets.forEach(FlatBucket::dropGradients);
    }

    @Override
    public void send() {
        buckets.forEach(FlatBucket::send);
    }

    @Override
    public void arrive() {
        buckets.forEach(FlatBucket::arrive);
    }

    @Override
    public Runnable arrivalOf(Tensor parameter) {
        for (FlatBucket bucket : buckets) {
            for (Tensor member : bucket.parameters().values()) {
                if (member.is_same(parameter)) {
                    return bucket::arrive;
                }
            }
        }
        return null;
    }

    @Override
    public void giveUp() {
        buckets.forEach(FlatBucket::giveUp);
    }

    @Override
    public void close() {
        buckets.forEach(FlatBucket::close);
    }
}
