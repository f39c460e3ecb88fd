package cs336.distributed.training;

import cs336.torch.DType;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Which gradients share a buffer. Parameters are taken from the last to the first, since the backward pass reaches them
 * in about this order; a bucket takes them up as long as they fit. One type a bucket: a reduction has one type.
 *
 * @param buckets in the order in which they are expected to fill
 */
public record BucketLayout(List<Bucket> buckets) {
    public BucketLayout {
        buckets = List.copyOf(buckets);
    }

    /**
     * A parameter, as far as buckets care.
     *
     * @param elements how many numbers it holds
     * @param dtype of its gradient
     */
    public record ParameterSize(long elements, DType dtype) {
        /** Bytes of its gradient. */
        public long bytes() {
            return elements * dtype.bytes();
        }
    }

    /**
     * Gradients that travel together.
     *
     * @param parameters places in the list of parameters, from the last to the first
     * @param dtype the type of all of them
     * @param elements how many numbers they hold
     */
    public record Bucket(List<Integer> parameters, DType dtype, long elements) {
        public Bucket {
            parameters = List.copyOf(parameters);
        }

        /** Bytes of the buffer. */
        public long bytes() {
            return elements * dtype.bytes();
        }
    }

    /**
     * Fills buckets.
     *
     * @param parameters in the order in which the module lists them
     * @param mostBytes of a bucket; what is larger by itself has a bucket for itself
     * @throws IllegalArgumentException if {@code mostBytes} is below 1
     */
    public static BucketLayout of(List<ParameterSize> parameters, long mostBytes) {
        if (mostBytes < 1) throw new IllegalArgumentException("mostBytes must be at least 1, not " + mostBytes);
        Map<DType, List<Integer>> open = new LinkedHashMap<>();
        Map<DType, Long> filled = new LinkedHashMap<>();
        List<Bucket> buckets = new ArrayList<>();
        for (int i = parameters.size() - 1; i >= 0; i--) {
            ParameterSize entry = parameters.get(i);
            DType dtype = entry.dtype;
            List<Integer> members = open.get(dtype);
            if (members != null && filled.get(dtype) + entry.bytes() > mostBytes) {
                buckets.add(bucket(members, dtype, parameters));
                members = null;
            }
            if (members == null) {
                members = new ArrayList<>();
                open.put(dtype, members);
                filled.put(dtype, 0L);
            }
            members.add(i);
            filled.merge(dtype, entry.bytes(), Long::sum);
        }
        open.forEach((dtype, members) -> buckets.add(bucket(members, dtype, parameters)));
        // A bucket is full with the last of its members.
        buckets.sort(Comparator.comparingInt(b -> -b.parameters.get(b.parameters.size() - 1)));
        return new BucketLayout(buckets);
    }

    private static Bucket bucket(List<Integer> members, DType dtype, List<ParameterSize> parameters) {
        long elements = members.stream()
                .mapToLong(member -> parameters.get(member).elements)
                .sum();
        return new Bucket(members, dtype, elements);
    }
}
