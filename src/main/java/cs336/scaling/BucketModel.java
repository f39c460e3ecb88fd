package cs336.scaling;

import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A model of the communication overhead of data-parallel training: the time from the end of the backward pass until all
 * gradients are reduced, if they are sent in n equal buckets during the backward pass.
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
 * <p>The first term falls with n, the second has its minimum at n = √(B ÷ o); they are equal where c = b, at n = (B − s
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

    /** Returns the overhead with n buckets. */
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

    /**
     * Fits bandwidth and call overhead to measured overheads by least squares of relative errors. The first term of the
     * maximum holds up to some number of buckets, the second above it; every such limit is tried.
     *
     * @param bytes s
     * @param backward B
     * @param measured overheads above 0, by number of buckets
     * @throws IllegalArgumentException if no positive w and o fit, for example with a single number of buckets, or if
     *     the error of the fit is larger than that of predicting 0
     */
    public static BucketModel fit(Bytes bytes, Seconds backward, Map<Double, Seconds> measured) {
        List<Double> limits = new ArrayList<>(measured.keySet());
        limits.add(0.0); // the link is always saturated
        BucketModel best = null;
        for (double limit : limits) {
            BucketModel model = fit(bytes, backward, measured, limit);
            if (model != null && (best == null || model.error(measured) < best.error(measured))) {
                best = model;
            }
        }
        if (best == null || best.error(measured) > measured.size()) {
            throw new IllegalArgumentException(
                    "measured must contain overheads for several numbers of buckets that follow the"
                            + " model; no positive bandwidth and call overhead fit " + measured);
        }
        return best;
    }

    /** Returns the sum of squared relative errors. */
    private double error(Map<Double, Seconds> measured) {
        double sum = 0;
        for (var entry : measured.entrySet()) {
            double error = overhead(entry.getKey()).value() / entry.getValue().value() - 1;
            sum += error * error;
        }
        return sum;
    }

    /**
     * Fits x ÷ w + y o = z, each equation divided by the measured overhead.
     *
     * @param limit largest number of buckets for which the first term holds
     * @return null if no positive w and o fit
     */
    private static BucketModel fit(Bytes bytes, Seconds backward, Map<Double, Seconds> measured, double limit) {
        var fit = new TwoParameterFit();
        for (var entry : measured.entrySet()) {
            double n = requirePositive("buckets", entry.getKey());
            double overhead = requirePositive("measured", entry.getValue().value());
            boolean first = n <= limit;
            fit.add(
                    bytes.count() / (first ? n : 1) / overhead,
                    (first ? 1 : n) / overhead,
                    first ? 1 : 1 + (n - 1) * backward.value() / n / overhead);
        }
        boolean fits = fit.isDetermined() && fit.first() > 0 && fit.second() > 0;
        return fits
                ? new BucketModel(bytes, new Bandwidth(1 / fit.first()), new Seconds(fit.second()), backward)
                : null;
    }

    private static double requirePositive(String name, double value) {
        if (!(value > 0 && value < Double.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException(name + " must be finite and above 0, not " + value);
        }
        return value;
    }
}
