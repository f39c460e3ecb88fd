package cs336.scaling.laws;

import java.util.Arrays;
import java.util.SplittableRandom;

/**
 * How intervals are made: residuals are drawn with replacement and put on the fitted curve, and the curve is fitted
 * again, many times (Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section 6.2). Budgets and
 * sizes stay as they were chosen; what varies is what was observed.
 *
 * @param confidence how often the interval should hold the truth, such as 0.95
 * @param resamples how many times
 * @param seed the same seed gives the same intervals
 */
public record Bootstrap(double confidence, int resamples, long seed) {
    /** 95 %, 1,000 times. */
    public static final Bootstrap DEFAULT = new Bootstrap(0.95, 1_000, 336);

    /**
     * @throws IllegalArgumentException if the confidence is not between 0 and 1 or there are fewer than 100 resamples
     */
    public Bootstrap {
        if (!(confidence > 0 && confidence < 1)) {
            throw new IllegalArgumentException("confidence must be between 0 and 1, not " + confidence);
        }
        if (resamples < 100) throw new IllegalArgumentException("resamples must be at least 100, not " + resamples);
    }

    SplittableRandom random() {
        return new SplittableRandom(seed);
    }

    /** As many values as there are residuals, each of them one residual, and their mean taken off all beforehand. */
    static double[] drawn(double[] residuals, SplittableRandom random) {
        double mean = Arrays.stream(residuals).average().orElseThrow();
        return Arrays.stream(residuals)
                .map(any -> residuals[random.nextInt(residuals.length)] - mean)
                .toArray();
    }

    /** The values between which the middle part of them lies that the confidence says. */
    Interval middle(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return new Interval(quantile(sorted, (1 - confidence) / 2), quantile(sorted, (1 + confidence) / 2));
    }

    /** Between two values in proportion. */
    private static double quantile(double[] sorted, double share) {
        double at = share * (sorted.length - 1);
        int below = (int) at;
        int above = Math.min(below + 1, sorted.length - 1);
        return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
    }
}
