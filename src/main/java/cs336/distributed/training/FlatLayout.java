package cs336.distributed.training;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Where parameters lie in flat buckets, and which stretch of each bucket is a rank's own. Counted in numbers, of one
 * type.
 *
 * <p>A bucket is {@code ranks} stretches of equal length. Parameters lie in it one after the other, in the order in
 * which they were given, each from a multiple of {@link #ALIGNMENT}; a stretch begins at one too. What is left over is
 * zero and never read.
 *
 * @param buckets in the order of their parameters
 */
public record FlatLayout(List<Bucket> buckets) {
    /** 32 bytes of fp32, 16 of bf16: what kernels need to read several numbers at once. */
    public static final int ALIGNMENT = 8;

    public FlatLayout {
        buckets = List.copyOf(buckets);
    }

    /**
     * A parameter in its bucket.
     *
     * @param offset of its first number in the bucket
     * @param numbers it has
     */
    public record Slot(String name, long offset, long numbers) {}

    /**
     * A part of a parameter that one rank owns.
     *
     * @param inParameter its first number, counted in the parameter
     * @param inBucket its first number, counted in the bucket
     * @param numbers it has, at least one
     */
    public record Piece(String name, long inParameter, long inBucket, long numbers) {}

    /**
     * Parameters that travel together.
     *
     * @param stretch numbers that each rank owns
     */
    public record Bucket(List<Slot> slots, int ranks, long stretch) {
        public Bucket {
            slots = List.copyOf(slots);
        }

        /** All of it, with what is left over. */
        public long numbers() {
            return stretch * ranks;
        }

        /** What a rank owns of its parameters. */
        public List<Piece> pieces(int rank) {
            long begin = rank * stretch;
            long end = begin + stretch;
            var pieces = new ArrayList<Piece>();
            for (Slot slot : slots) {
                long from = Math.max(begin, slot.offset);
                long until = Math.min(end, slot.offset + slot.numbers);
                if (from < until) {
                    pieces.add(new Piece(slot.name, from - slot.offset, from, until - from));
                }
            }
            return pieces;
        }
    }

    /**
     * Lays parameters out.
     *
     * @param sizes numbers by name
     * @param capacity most numbers of a bucket's parameters; a larger parameter has a bucket by itself
     */
    public static FlatLayout of(Map<String, Long> sizes, long capacity, int ranks) {
        var buckets = new ArrayList<Bucket>();
        var slots = new ArrayList<Slot>();
        long used = 0;
        for (var parameter : sizes.entrySet()) {
            long numbers = parameter.getValue();
            if (!slots.isEmpty() && used + numbers > capacity) {
                buckets.add(bucket(slots, used, ranks));
                slots.clear();
                used = 0;
            }
            slots.add(new Slot(parameter.getKey(), used, numbers));
            used = aligned(used + numbers);
        }
        if (!slots.isEmpty()) {
            buckets.add(bucket(slots, used, ranks));
        }
        return new FlatLayout(buckets);
    }

    private static Bucket bucket(List<Slot> slots, long used, int ranks) {
        return new Bucket(slots, ranks, aligned((used + ranks - 1) / ranks));
    }

    private static long aligned(long numbers) {
        return (numbers + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}
