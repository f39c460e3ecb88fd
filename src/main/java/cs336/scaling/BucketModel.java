package cs336.scaling;

import java.util.Arrays;

/**
 * How long training waits for gradients after the backward pass when these are sent in equal buckets while it runs.
 *
 * <p>The backward pass takes B and completes a bucket each b = B ÷ n. Sending one takes c = s ÷ (n w) + o; buckets go one after the
 * other. Bucket k is ready at k b and leaves at E(k) = max(E(k − 1), k b) + c. The last one leaves at E(n) = max(n b + c, b + n c): if a
 * bucket is sent faster than the next is made, only the last is waited for; otherwise the link, once it has begun, never rests. What is
 * left after the backward pass is
 *
 * <pre>
 * E(n) − B = max( s ÷ (n w) + o,  s ÷ w + n o − (n − 1) B ÷ n )
 * </pre>
 *
 * <p>The first falls with n, the second is least at n = √(B ÷ o); they meet where c = b, at n = (B − s ÷ w) ÷ o. So the best number of
 * buckets is the larger of the two. Where computing a bucket's gradients takes as long as moving its bytes, B = s ÷ w, this is the
 * course's case: s ÷ (n w) + n o, least at n = √(s ÷ (w o)), which is a bucket of √(s w o) bytes.
 *
 * @param bytes s, of all gradients
 * @param bandwidth w, bytes of a rank over the time of an all-reduce of them, in bytes/s
 * @param callOverhead o, what each call takes whatever its size, in s
 * @param backward B, in s
 */
public record BucketModel(double bytes, double bandwidth, double callOverhead, double backward) {
    public BucketModel {
        requirePositive("bytes", bytes);
        requirePositive("bandwidth", bandwidth);
        requirePositive("callOverhead", callOverhead);
        requirePositive("backward", backward);
    }

    /** The case in which gradients are computed as fast as they are moved: B = s ÷ w. */
    public static BucketModel equalTimes(double bytes, double bandwidth, double callOverhead) {
        return new BucketModel(bytes, bandwidth, callOverhead, bytes / bandwidth);
    }

    /** Seconds after the backward pass with n buckets. */
    public double overhead(double buckets) {
        requirePositive("buckets", buckets);
        return waitsForCompute(buckets) ? lastBucket(buckets) : busyLink(buckets);
    }

    /** Whether a bucket is sent at least as fast as the next one is made. */
    public boolean waitsForCompute(double buckets) {
        return lastBucket(buckets) >= busyLink(buckets);
    }

    /** The number of buckets with the least overhead; no whole number. */
    public double bestBuckets() {
        double linkIsBusy = Math.sqrt(backward / callOverhead);
        double timesMeet = (backward - bytes / bandwidth) / callOverhead;
        return Math.max(1, Math.max(linkIsBusy, timesMeet));
    }

    /** Bytes of a bucket with the least overhead. */
    public double bestBucketBytes() {
        return bytes / bestBuckets();
    }

    private double lastBucket(double buckets) {
        return bytes / (buckets * bandwidth) + callOverhead;
    }

    private double busyLink(double buckets) {
        return bytes / bandwidth + buckets * callOverhead - (buckets - 1) * backward / buckets;
    }

    /**
     * The bandwidth and the overhead of a call that fit measured times best: relative errors have the least sum of squares. The first
     * formula counts up to some number of buckets, the second from there on; so each such number is tried.
     *
     * @param bytes s
     * @param backward B, in s
     * @param buckets n of each measurement
     * @param overheads seconds after the backward pass of each, above 0
     * @throws IllegalArgumentException if no w and o above 0 fit, as with one number of buckets alone
     */
    public static BucketModel fit(double bytes, double backward, double[] buckets, double[] overheads) {
        if (buckets.length != overheads.length) {
            throw new IllegalArgumentException(
                    "overheads must be as many as buckets, " + buckets.length + ", not " + overheads.length);
        }
        double[] limits = Arrays.copyOf(buckets, buckets.length + 1); // 0: the link is always busy
        BucketModel best = null;
        for (double limit : limits) {
            BucketModel model = fit(bytes, backward, buckets, overheads, limit);
            if (model != null && (best == null || model.error(buckets, overheads) < best.error(buckets, overheads))) {
                best = model;
            }
        }
        if (best == null) {
            throw new IllegalArgumentException("overheads must differ as those of buckets of different sizes do: no"
                    + " bandwidth and overhead of a call above 0 fit them");
        }
        return best;
    }

    /** Sum of squared relative errors. */
    private double error(double[] buckets, double[] overheads) {
        double sum = 0;
        for (int i = 0; i < buckets.length; i++) {
            double error = overhead(buckets[i]) / overheads[i] - 1;
            sum += error * error;
        }
        return sum;
    }

    /**
     * Least squares of x ÷ w + y o = z, where each row is divided by what was measured.
     *
     * @param limit the most buckets for which the first formula counts
     * @return null if there is no w and o above 0
     */
    private static BucketModel fit(double bytes, double backward, double[] buckets, double[] overheads, double limit) {
        double xx = 0, xy = 0, yy = 0, xz = 0, yz = 0;
        for (int i = 0; i < buckets.length; i++) {
            double n = requirePositive("buckets", buckets[i]);
            double measured = requirePositive("overheads", overheads[i]);
            boolean first = n <= limit;
            double x = (first ? bytes / n : bytes) / measured;
            double y = (first ? 1 : n) / measured;
            double z = (first ? measured : measured + (n - 1) * backward / n) / measured;
            xx += x * x;
            xy += x * y;
            yy += y * y;
            xz += x * z;
            yz += y * z;
        }
        double determinant = xx * yy - xy * xy;
        double slowness = (xz * yy - yz * xy) / determinant;
        double overhead = (yz * xx - xz * xy) / determinant;
        boolean isOne = determinant > 1e-12 * xx * yy && slowness > 0 && overhead > 0;
        return isOne ? new BucketModel(bytes, 1 / slowness, overhead, backward) : null;
    }

    private static double requirePositive(String name, double value) {
        if (!(value > 0 && value < Double.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException(name + " must be finite and above 0, not " + value);
        }
        return value;
    }
}
