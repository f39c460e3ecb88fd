package cs336.scaling;

import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;

/**
 * A model of the communication overhead of data-parallel training: the time from the end of the backward pass until all
 * gradients are reduced, if they are sent in n equal buckets during the backward pass. {@link BucketSequence} follows
 * buckets of different sizes.
 *
 * <p>The backward pass takes B and completes one bucket every b = B ÷ n. Sending a bucket takes c = s ÷ (n w) + o, and
 * buckets are sent one after the other. Bucket k is ready at k b and its all-reduce ends at E(k) = max(E(k − 1), k b) +
 * c. The last one ends at E(n) = max(n b + c, b + n c): if a bucket is sent faster than the next is computed, only the
 * last is exposed; otherwise the link is never idle after the first bucket. The overhead is
 *
 * <pre>
 * E(n) − B = max( s ÷ (n w) + o,  s ÷ w + n o − (n − 1) B ÷ n )
 * </pre>
 *
 * <p>The first term falls with n. The second has its minimum at n = √(B ÷ o). They are equal where c = b, at n = (B − s
 * ÷ w) ÷ o. The best number of buckets is the larger of the two. In the course's case the gradients take as long to
 * compute as to send, B = s ÷ w. Then the overhead is s ÷ (n w) + n o, with its minimum at n = √(s ÷ (w o)): buckets of
 * √(s w o) bytes.
 *
 * @param bytes s, the size of all gradients
 * @param bandwidth w, the gradient bytes of a rank divided by the time of their all-reduce
 * @param callOverhead o, the fixed time of each call
 * @param backward B, the time of the backward pass
 */
public record BucketModel(Bytes bytes, Bandwidth bandwidth, Seconds callOverhead, Seconds backward) {
    /** @throws IllegalArgumentException if an argument is not finite and above 0 */
    public BucketModel {
        requirePositive("bytes", bytes.count());
        requirePositive("bandwidth", bandwidth.bytesPerSecond());
        requirePositive("callOverhead", callOverhead.value());
        requirePositive("backward", backward.value());
    }

    /** Returns the model for gradients that take as long to compute as to send: B = s ÷ w. */
    public static BucketModel equalTimes(Bytes bytes, Bandwidth bandwidth, Seconds callOverhead) {
        return new BucketModel(bytes, bandwidth, callOverhead, bytes.over(bandwidth));
    }

    /**
     * Returns the overhead with n buckets.
     *
     * @throws IllegalArgumentException if the number is not finite and above 0
     */
    public Seconds overhead(double buckets) {
        requirePositive("buckets", buckets);
        return new Seconds(Math.max(lastBucket(buckets), saturatedLink(buckets)));
    }

    /** Returns the number of buckets with the smallest overhead, at least 1 and not rounded to an integer. */
    public double bestBuckets() {
        double saturated = Math.sqrt(backward.value() / callOverhead.value());
        double equal = (backward.value() - sending()) / callOverhead.value();
        return Math.max(1, Math.max(saturated, equal));
    }

    /** Returns the bucket size with the smallest overhead. */
    public Bytes bestBucket() {
        return bytes.times(1 / bestBuckets());
    }

    /** Returns s ÷ w in seconds. */
    private double sending() {
        return bytes.over(bandwidth).value();
    }

    private double lastBucket(double buckets) {
        return sending() / buckets + callOverhead.value();
    }

    private double saturatedLink(double buckets) {
        return sending() + buckets * callOverhead.value() - (buckets - 1) * backward.value() / buckets;
    }

    private static double requirePositive(String name, double value) {
        if (!(value > 0 && value < Double.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException(name + " must be finite and above 0, not " + value);
        }
        return value;
    }
}
