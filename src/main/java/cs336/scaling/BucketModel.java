package cs336.scaling;

import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * How long training waits for gradients after the backward pass when these are sent in equal buckets while it runs.
 *
 * <p>The backward pass takes B and completes a bucket each b = B ÷ n. Sending one takes c = s ÷ (n w) + o; buckets go
 * one after the other. Bucket k is ready at k b and leaves at E(k) = max(E(k − 1), k b) + c. The last one leaves at
 * E(n) = max(n b + c, b + n c): if a bucket is sent faster than the next is made, only the last is waited for;
 * otherwise the link, once it has begun, never rests. What is left after the backward pass is
 *
 * <pre>
 * E(n) − B = max( s ÷ (n w) + o,  s ÷ w + n o − (n − 1) B ÷ n )
 * </pre>
 *
 * <p>The first falls with n, the second is least at n = √(B ÷ o); they meet where c = b, at n = (B − s ÷ w) ÷ o. So the
 * best number of buckets is the larger of the two. Where computing a bucket's gradients takes as long as moving its
 * bytes, B = s ÷ w, this is the course's case: s ÷ (n w) + n o, least at n = √(s ÷ (w o)), which is a bucket of √(s w
 * o) bytes.
 *
 * @param bytes s, of all gradients
 * @param bandwidth w, bytes of a rank over the time of an all-reduce of them
 * @param callOverhead o, what each call takes whatever its size
 * @param backward B
 */
public record BucketModel(Bytes bytes, Bandwidth bandwidth, Seconds callOverhead, Seconds backward) {
    public BucketModel {
        requirePositive("bytes", bytes.count());
        requirePositive("bandwidth", bandwidth.bytesPerSecond());
        requirePositive("callOverhead", callOverhead.value());
        requirePositive("backward", backward.value());
    }

    /** The case in which gradients are computed as fast as they are moved: B = s ÷ w. */
    public static BucketModel equalTimes(Bytes bytes, Bandwidth bandwidth, Seconds callOverhead) {
        return new BucketModel(bytes, bandwidth, callOverhead, bytes.over(bandwidth));
    }

    /** What is left after the backward pass with n buckets. */
    public Seconds overhead(double buckets) {
        requirePositive("buckets", buckets);
        return new Seconds(Math.max(lastBucket(buckets), busyLink(buckets)));
    }

    /** The number of buckets with the least overhead; no whole number. */
    public double bestBuckets() {
        double linkIsBusy = Math.sqrt(backward.value() / callOverhead.value());
        double timesMeet = (backward.value() - sending()) / callOverhead.value();
        return Math.max(1, Math.max(linkIsBusy, timesMeet));
    }

    /** A bucket with the least overhead. */
    public Bytes bestBucket() {
        return bytes.times(1 / bestBuckets());
    }

    /** s ÷ w, in seconds. */
    private double sending() {
        return bytes.over(bandwidth).value();
    }

    private double lastBucket(double buckets) {
        return sending() / buckets + callOverhead.value();
    }

    private double busyLink(double buckets) {
        return sending() + buckets * callOverhead.value() - (buckets - 1) * backward.value() / buckets;
    }

    /**
     * The bandwidth and the overhead of a call that fit measured times best: relative errors have the least sum of
     * squares. The first formula counts up to some number of buckets, the second from there on; so each such number is
     * tried.
     *
     * @param bytes s
     * @param backward B
     * @param measured what was left after the backward pass, above 0, by number of buckets
     * @throws IllegalArgumentException if no w and o above 0 fit, as with one number of buckets alone, or where the fit
     *     errs more than no overhead at all would
     */
    public static BucketModel fit(Bytes bytes, Seconds backward, Map<Double, Seconds> measured) {
        List<Double> limits = new ArrayList<>(measured.keySet());
        limits.add(0.0); // the link is always busy
        BucketModel best = null;
        for (double limit : limits) {
            BucketModel model = fit(bytes, backward, measured, limit);
            if (model != null && (best == null || model.error(measured) < best.error(measured))) best = model;
        }
        if (best == null || best.error(measured) > measured.size()) {
            throw new IllegalArgumentException("measured must differ as times with buckets of different sizes do: no"
                    + " bandwidth and overhead of a call above 0 fit " + measured);
        }
        return best;
    }

    /** Sum of squared relative errors. */
    private double error(Map<Double, Seconds> measured) {
        double sum = 0;
        for (var entry : measured.entrySet()) {
            double error = overhead(entry.getKey()).value() / entry.getValue().value() - 1;
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
    private static BucketModel fit(Bytes bytes, Seconds backward, Map<Double, Seconds> measured, double limit) {
        double xx = 0, xy = 0, yy = 0, xz = 0, yz = 0;
        for (var entry : measured.entrySet()) {
            double n = requirePositive("buckets", entry.getKey());
            double overhead = requirePositive("measured", entry.getValue().value());
            boolean first = n <= limit;
            double x = bytes.count() / (first ? n : 1) / overhead;
            double y = (first ? 1 : n) / overhead;
            double z = first ? 1 : 1 + (n - 1) * backward.value() / n / overhead;
            xx += x * x;
            xy += x * y;
            yy += y * y;
            xz += x * z;
            yz += y * z;
        }
        double determinant = xx * yy - xy * xy;
        double slowness = (xz * yy - yz * xy) / determinant;
        double callOverhead = (yz * xx - xz * xy) / determinant;
        boolean isOne = determinant > 1e-12 * xx * yy && slowness > 0 && callOverhead > 0;
        return isOne ? new BucketModel(bytes, new Bandwidth(1 / slowness), new Seconds(callOverhead), backward) : null;
    }

    private static double requirePositive(String name, double value) {
        if (!(value > 0 && value < Double.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException(name + " must be finite and above 0, not " + value);
        }
        return value;
    }
}
