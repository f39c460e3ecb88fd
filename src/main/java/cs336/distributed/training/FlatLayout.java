package cs336.distributed.training;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Where parameters lie in flat buckets, and which shardElements of each bucket is a rank's own. Counted in elements, of
 * one type.
 *
 * <p>A bucket is {@code ranks} stretches of equal length. Parameters lie in it one after the other, in the order in
 * which they were given, each from a multiple of {@link #ALIGNMENT}; a shardElements begins at one too. What is left
 * over is zero and never read.
 *
 * @param buckets in the order of their parameters
 */
public record FlatLayout(List<ShardedBucket> buckets) {
    /** 32 bytes of fp32, 16 of bf16: what kernels need to read several elements at once. */
    public static final int ALIGNMENT = 8;

    public FlatLayout {
        buckets = List.copyOf(buckets);
    }

    /**
     * A parameter in its bucket.
     *
     * @param offset of its first number in the bucket
     * @param elements it has
     */
    public record ParameterSlot(String name, long offset, long elements) {}

    /**
     * A part of a parameter that one rank owns.
     *
     * @param offsetInParameter its first number, counted in the parameter
     * @param offsetInBucket its first number, counted in the bucket
     * @param elements it has, at least one
     */
    public record ParameterShard(String name, long offsetInParameter, long offsetInBucket, long elements) {}

    /**
     * Parameters that travel together.
     *
     * @param shardElements elements that each rank owns
     */
    public record ShardedBucket(List<ParameterSlot> slots, int ranks, long shardElements) {
        public ShardedBucket {
            slots = List.copyOf(slots);
        }

        /** All of it, with what is left over. */
        public long elements() {
            return shardElements * ranks;
        }

        /** What a rank owns of its parameters. */
        public List<ParameterShard> shard(int rank) {
            long begin = rank * shardElements;
            long end = begin + shardElements;
            var pieces = new ArrayList<ParameterShard>();
            for (ParameterSlot slot : slots) {
                long from = Math.max(begin, slot.offset);
                long until = Math.min(end, slot.offset + slot.elements);
                if (from < until) {
                    pieces.add(new ParameterShard(slot.name, from - slot.offset, from, until - from));
                }
            }
            return pieces;
        }
    }

    /**
     * Lays parameters out.
     *
     * @param sizes elements by name
     * @param capacity most elements of a bucket's parameters; a larger parameter has a bucket by itself
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
        return new ShardedBucket(slots, ranks, aligned((used + ranks - 1) / ranks));
    }

    private static long aligned(long elements) {
        return (elements + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}
