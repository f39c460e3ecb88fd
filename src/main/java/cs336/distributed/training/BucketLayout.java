package cs336.distributed.training;

import cs336.torch.DType;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The assignment of gradients to buckets. Parameters are assigned from the last to the first, because the backward pass
 * reaches them in about this order. A bucket takes parameters until the next one would exceed its size. A bucket has
 * one dtype, because a reduction has one.
 *
 * @param buckets the buckets in the order in which they are expected to fill
 */
public record BucketLayout(List<Bucket> buckets) {
    public BucketLayout {
        Objects.requireNonNull(buckets, "buckets must not be null");
        buckets = List.copyOf(buckets);
    }

    /**
     * The size of a parameter's gradient.
     *
     * @param elements number of elements
     * @param dtype dtype of the gradient
     */
    public record ParameterSize(long elements, DType dtype) {
        /** Returns the bytes of the gradient. */
        public long bytes() {
            return elements * dtype.bytes();
        }
    }

    /**
     * Gradients that share a buffer and an all-reduce.
     *
     * @param parameters indices into the list of parameters, descending
     * @param dtype dtype of all gradients
     * @param elements total number of elements
     */
    public record Bucket(List<Integer> parameters, DType dtype, long elements) {
        public Bucket {
            Objects.requireNonNull(parameters, "parameters must not be null");
            parameters = List.copyOf(parameters);
        }

        /** Returns the bytes of the buffer. */
        public long bytes() {
            return elements * dtype.bytes();
        }
    }

    /**
     * Assigns parameters to buckets.
     *
     * @param parameters the parameters in the order in which the module lists them
     * @param mostBytes maximum size of a bucket; a larger gradient gets its own bucket
     * @throws IllegalArgumentException if {@code mostBytes} is below 1
     */
    public static BucketLayout of(List<ParameterSize> parameters, long mostBytes) {
        if (mostBytes < 1) {
            throw new IllegalArgumentException("mostBytes must be at least 1, not " + mostBytes);
        }
        Map<DType, List<Integer>> open = new LinkedHashMap<>();
        Map<DType, Long> filled = new LinkedHashMap<>();
        List<Bucket> buckets = new ArrayList<>();
        for (int i = parameters.size() - 1; i >= 0; i--) {
            ParameterSize size = parameters.get(i);
            DType dtype = size.dtype;
            List<Integer> members = open.get(dtype);
            if (members != null && filled.get(dtype) + size.bytes() > mostBytes) {
                buckets.add(bucket(members, dtype, parameters));
                members = null;
            }
            if (members == null) {
                members = new ArrayList<>();
                open.put(dtype, members);
                filled.put(dtype, 0L);
            }
            members.add(i);
            filled.merge(dtype, size.bytes(), Long::sum);
        }
        open.forEach((dtype, members) -> buckets.add(bucket(members, dtype, parameters)));
        // A bucket is complete when its last member is ready.
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
