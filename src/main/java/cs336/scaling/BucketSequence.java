package cs336.scaling;

import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;

/**
 * Gradient buckets of different sizes that are all-reduced one after the other during the backward pass. In contrast to
 * {@link BucketModel}, which has n equal buckets, the sizes are those of a real model.
 *
 * <p>Bucket k is complete at r(k) and its all-reduce takes t(k). It starts when the bucket is complete and the previous
 * all-reduce has ended: E(k) = max(E(k − 1), r(k)) + t(k). The exposed communication is E(n) − B.
 *
 * @param buckets the buckets in the order in which they are sent
 */
public record BucketSequence(List<CompleteBucket> buckets) {
    public BucketSequence {
        Objects.requireNonNull(buckets, "buckets must not be null");
        buckets = List.copyOf(buckets);
    }

    /**
     * A bucket and the time at which it is complete.
     *
     * @param bytes its size
     * @param ready the time from the start of the backward pass until its last gradient is ready
     */
    public record CompleteBucket(Bytes bytes, Seconds ready) {}

    /**
     * Returns the time from the end of the backward pass until the last all-reduce ends; 0 if it ends earlier.
     *
     * @param backward B, the time of the backward pass
     * @param allReduce time of an all-reduce of a number of bytes on an otherwise idle device
     * @param slowdown factor by which an all-reduce takes longer during the backward pass, at least 1
     * @throws IllegalArgumentException if the slowdown is below 1
     */
    public Seconds exposed(Seconds backward, Function<Bytes, Seconds> allReduce, double slowdown) {
        if (!(slowdown >= 1)) {
            throw new IllegalArgumentException("slowdown must be at least 1, not " + slowdown);
        }
        double passEnd = backward.value();
        double end = 0;
        for (CompleteBucket bucket : buckets) {
            double start = Math.max(end, bucket.ready.value());
            double time = allReduce.apply(bucket.bytes).value();
            double doneInPass = Math.min(time, Math.max(0, passEnd - start) / slowdown);
            end = start + doneInPass * slowdown + (time - doneInPass);
        }
        return new Seconds(Math.max(0, end - passEnd));
    }
}
