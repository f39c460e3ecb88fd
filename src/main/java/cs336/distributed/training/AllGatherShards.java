package cs336.distributed.training;

import static cs336.units.UnitFactors.MB;

import cs336.distributed.collectives.ProcessGroup;
import cs336.torch.DType;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * Shards of {@link Sharding.AllGather}: parameters are views into flat buckets, of which each rank owns an equal shard.
 */
final class AllGatherShards implements Shards {
    private final ProcessGroup group;
    private final List<FlatBucket> buckets = new ArrayList<>();
    private final Map<String, Tensor> local = new LinkedHashMap<>();

    AllGatherShards(Map<String, Tensor> parameters, double bucketMb, ProcessGroup group) {
        this.group = group;
        Map<DType, Map<String, Long>> sizes = new EnumMap<>(DType.class); // a flat tensor has one dtype
        parameters.forEach((name, parameter) -> sizes.computeIfAbsent(DType.of(parameter), t -> new LinkedHashMap<>())
                .put(name, parameter.numel()));
        sizes.forEach((dtype, ofType) -> {
            long capacity = (long) (bucketMb * MB / dtype.bytes());
            for (FlatLayout.ShardedBucket bucket :
                    FlatLayout.of(ofType, capacity, group.size()).buckets()) {
                buckets.add(new FlatBucket(bucket, parameters, group));
            }
        });
        buckets.forEach(bucket -> local.putAll(bucket.local()));
    }

    @Override
    public Map<String, Tensor> local() {
        return Collections.unmodifiableMap(local);
    }

    @Override
    public long offset(String name) {
        for (FlatBucket bucket : buckets) {
            Long offset = bucket.offset(name);
            if (offset != null) {
                return offset;
            }
        }
        throw new IllegalArgumentException("rank " + group.rank() + " has no shard of parameter " + name);
    }

    @Override
    public long[] bytesPerRank() {
        var bytes = new long[group.size()];
        for (int rank = 0; rank < bytes.length; rank++) {
            for (FlatBucket bucket : buckets) {
                bytes[rank] += bucket.bytes(rank);
            }
        }
        return bytes;
    }

    @Override
    public List<GradientCollective> gradientCollectives(List<Tensor> trainable) {
        var collectives = new ArrayList<GradientCollective>();
        for (FlatBucket bucket : buckets) {
            ReduceScatterBucket collective = bucket.gradientCollective(trainable);
            if (collective != null) {
                collectives.add(0, collective);
            }
        }
        return collectives;
    }

    @Override
    public void assignGradients() {
        buckets.forEach(FlatBucket::assignGradients);
    }

    @Override
    public void clearGradients() {
        buckets.forEach(FlatBucket::clearGradients);
    }

    @Override
    public void startSynchronization() {
        buckets.forEach(FlatBucket::startAllGather);
    }

    @Override
    public void await() {
        buckets.forEach(FlatBucket::await);
    }

    @Override
    public Runnable awaiting(Tensor parameter) {
        for (FlatBucket bucket : buckets) {
            for (Tensor member : bucket.parameters().values()) {
                if (member.is_same(parameter)) {
                    return bucket::await;
                }
            }
        }
        return null;
    }

    @Override
    public void undo() {
        buckets.forEach(FlatBucket::undo);
    }

    @Override
    public void close() {
        buckets.forEach(FlatBucket::close);
    }
}
