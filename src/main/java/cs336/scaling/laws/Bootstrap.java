package cs336.scaling.laws;

import java.util.Arrays;
import java.util.SplittableRandom;

/**
 * The parameters of a residual bootstrap for confidence intervals. It repeats two steps: draw residuals with
 * replacement and add them to the fitted curve, then fit the curve again (Davison and Hinkley, "Bootstrap Methods and
 * their Application", 1997, section 6.2). Only the fitted values are resampled: for a {@link LineFit} ln N of each
 * minimum, at fixed budgets; for a {@link SurfaceFit} ln L of each run, at fixed numbers of parameters and tokens.
 *
 * @param confidence probability with which an interval should contain the true value, such as 0.95
 * @param resamples number of resamples
 * @param seed seed of the random draws; the same seed gives the same intervals
 */
public record Bootstrap(double confidence, int resamples, long seed) {
    /** A confidence of 95 % with 1,000 resamples. */
    public static final Bootstrap DEFAULT = new Bootstrap(0.95, 1_000, 336);

    /**
     * @throws IllegalArgumentException if the confidence is not between 0 and 1, or there are fewer than 100 or more
     *     than a million resamples
     */
    public Bootstrap {
        if (!(confidence > 0 && confidence < 1)) {
            throw new IllegalArgumentException("confidence must be between 0 and 1, not " + confidence);
        }
        if (resamples < 100 || resamples > 1_000_000) {
            throw new IllegalArgumentException("resamples must be between 100 and 1000000, not " + resamples);
        }
    }

    SplittableRandom random() {
        return new SplittableRandom(seed);
    }

    /** Returns a sample of the same size from the centred residuals, drawn with replacement. */
    static double[] drawn(double[] residuals, SplittableRandom random) {
        double mean = Arrays.stream(residuals).average().orElseThrow();
        return Arrays.stream(residuals)
                .map(any -> residuals[random.nextInt(residuals.length)] - mean)
                .toArray();
    }

    /** Returns the central interval that contains the fraction {@code confidence} of the values. */
    Interval central(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return new Interval(quantile(sorted, (1 - confidence) / 2), quantile(sorted, (1 + confidence) / 2));
    }

    /** Returns a quantile by linear interpolation between the two nearest values. */
    private static double quantile(double[] sorted, double fraction) {
        double at = fraction * (sorted.length - 1);
        int below = (int) at;
        int above = Math.min(below + 1, sorted.length - 1);
        return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
    }
}
