package cs336.distributed.training;

import cs336.units.IntegerMath;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The layout of parameters in flat buckets that are cut into shards. All sizes and offsets count elements of one dtype.
 *
 * <p>A bucket consists of one shard per rank, all of equal size. Its parameters follow each other in the given order.
 * Each parameter and each shard starts at a multiple of {@link #ALIGNMENT}. The values of the padding are sent in
 * collectives but have no meaning.
 *
 * @param buckets the buckets in the order of their parameters
 */
public record FlatLayout(List<ShardedBucket> buckets) {
    /** Alignment in elements, 32 bytes in fp32 and 16 in bf16, as vectorized loads of kernels require. */
    public static final int ALIGNMENT = 8;

    public FlatLayout {
        Objects.requireNonNull(buckets, "buckets must not be null");
        buckets = List.copyOf(buckets);
    }

    /**
     * The position of a parameter in its bucket.
     *
     * @param offset offset of its first element in the bucket
     * @param elements number of elements
     */
    public record ParameterSlot(String name, long offset, long elements) {}

    /**
     * The part of a parameter that is in one rank's shard.
     *
     * @param offsetInParameter offset of its first element in the parameter
     * @param offsetInBucket offset of its first element in the bucket
     * @param elements number of elements, at least one
     */
    public record ParameterShard(String name, long offsetInParameter, long offsetInBucket, long elements) {}

    /**
     * A bucket of parameters that is cut into one equal shard per rank.
     *
     * @param shardElements elements of each rank's shard, with padding
     */
    public record ShardedBucket(List<ParameterSlot> slots, int ranks, long shardElements) {
        public ShardedBucket {
            Objects.requireNonNull(slots, "slots must not be null");
            slots = List.copyOf(slots);
        }

        /** Returns the elements of the bucket, with padding. */
        public long elements() {
            return shardElements * ranks;
        }

        /** Returns the parts of parameters in one rank's shard. */
        public List<ParameterShard> shard(int rank) {
            long begin = rank * shardElements;
            long end = begin + shardElements;
            var parts = new ArrayList<ParameterShard>();
            for (ParameterSlot slot : slots) {
                long from = Math.max(begin, slot.offset);
                long until = Math.min(end, slot.offset + slot.elements);
                if (from < until) {
                    parts.add(new ParameterShard(slot.name, from - slot.offset, from, until - from));
                }
            }
            return parts;
        }
    }

    /**
     * Lays out parameters in buckets.
     *
     * @param sizes number of elements by parameter name
     * @param capacity maximum elements of a bucket's parameters; a larger parameter gets its own bucket
     */
    public static FlatLayout of(Map<String, Long> sizes, long capacity, int ranks) {
        var buckets = new ArrayList<ShardedBucket>();
        var slots = new ArrayList<ParameterSlot>();
        long used = 0;
        for (var parameter : sizes.entrySet()) {
            long elements = parameter.getValue();
            if (!slots.isEmpty() && used + elements > capacity) {
                buckets.add(bucket(slots, used, ranks));
                slots.clear();
                used = 0;
            }
            slots.add(new ParameterSlot(parameter.getKey(), used, elements));
            used = aligned(used + elements);
        }
        if (!slots.isEmpty()) {
            buckets.add(bucket(slots, used, ranks));
        }
        return new FlatLayout(buckets);
    }

    private static ShardedBucket bucket(List<ParameterSlot> slots, long used, int ranks) {
        return new ShardedBucket(slots, ranks, aligned(IntegerMath.ceilDiv(used, ranks)));
    }

    private static long aligned(long elements) {
        return IntegerMath.roundUp(elements, ALIGNMENT);
    }
}
