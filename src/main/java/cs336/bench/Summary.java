package cs336.bench;

import java.util.Arrays;

/**
 * The statistics of the samples of a metric.
 *
 * @param n number of samples
 * @param mean arithmetic mean
 * @param std sample standard deviation, √(Σ(x − mean)² / (n − 1)); NaN for a single sample
 * @param median middle sample, or the mean of the two in the middle
 * @param min smallest sample
 * @param max largest sample
 */
public record Summary(int n, double mean, double std, double median, double min, double max) {
    /**
     * Returns the statistics of at least one sample.
     *
     * @throws IllegalArgumentException if there are no samples
     */
    public static Summary of(double... samples) {
        int n = samples.length;
        if (n == 0) {
            throw new IllegalArgumentException("samples are empty: a summary needs at least one");
        }
        double[] sorted = samples.clone();
        Arrays.sort(sorted);
        double mean = Arrays.stream(sorted).sum() / n;
        double squares = Arrays.stream(sorted).map(x -> (x - mean) * (x - mean)).sum();
        double std = n > 1 ? Math.sqrt(squares / (n - 1)) : Double.NaN;
        double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
        return new Summary(n, mean, std, median, sorted[0], sorted[n - 1]);
    }
}
