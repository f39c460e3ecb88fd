package cs336.charts;

import java.util.Locale;
import java.util.function.Function;
import java.util.stream.DoubleStream;

/**
 * The range and the tick labels of a vertical axis.
 *
 * @param min lower end
 * @param max upper end, greater than {@code min}
 * @param log true for a logarithmic axis, whose ends are positive
 */
public record AxisRange(double min, double max, boolean log) {
    private static final double MARKER = 0.03; // of the range

    /**
     * Returns the smallest range with round ends that contains all values.
     *
     * @param values at least one; for a logarithmic axis all above 0
     * @param log true for a logarithmic axis
     * @param fromZero true if a linear axis must contain zero
     * @throws IllegalArgumentException if there are no values
     */
    public static AxisRange of(double[] values, boolean log, boolean fromZero) {
        HorizontalScale.requireValues(values);
        double low = DoubleStream.of(values).min().orElseThrow();
        double high = DoubleStream.of(values).max().orElseThrow();
        if (log) {
            double min = roundDown(low);
            double max = HorizontalScale.roundUp(high);
            return extended(min, max > min ? max : min * 10, true);
        }
        double min = fromZero ? Math.min(0, low) : low;
        double max = fromZero ? Math.max(0, high) : high;
        double span = max > min ? max - min : Math.max(1, Math.abs(max));
        double step = Math.pow(10, Math.floor(Math.log10(span))) / 2;
        double lower = Math.floor((min - 0.02 * span) / step) * step;
        double upper = Math.ceil((max + 0.02 * span) / step) * step;
        // If all values are on one side of zero, the axis does not extend to the other side; that of zeros is positive.
        return extended(
                low >= 0 ? Math.max(0, lower) : lower, high <= 0 && low < 0 ? Math.min(0, upper) : upper, false);
    }

    /** Returns this linear range with room for a marker at both ends. */
    AxisRange widened() {
        double margin = MARKER * (max - min);
        return new AxisRange(min - margin, max + margin, false);
    }

    /**
     * Returns a range that ends slightly beyond its last ticks, because XChart does not label a tick at the very end.
     */
    private static AxisRange extended(double min, double max, boolean log) {
        double margin = log ? Math.pow(max / min, 0.003) : 1e-6 * (max - min);
        return log ? new AxisRange(min / margin, max * margin, true) : new AxisRange(min - margin, max + margin, false);
    }

    /** Rounds a positive value down to one of … 1, 2, 5, 10, 20 …. */
    private static double roundDown(double value) {
        double decade = Math.pow(10, Math.floor(Math.log10(value)));
        for (int digit : new int[] {10, 5, 2}) {
            if (digit * decade <= value * (1 + 1e-9)) {
                return digit * decade;
            }
        }
        return decade;
    }

    /**
     * Returns the function that formats tick labels. On a logarithmic axis over more than 2.5 decades only powers of
     * ten have a label.
     */
    public Function<Double, String> labels() {
        if (!log) {
            double step = HorizontalScale.roundUp((max - min) / 8);
            int decimals = Math.max(0, (int) -Math.floor(Math.log10(step) + 1e-9));
            return decimals == 0 || decimals > 4
                    ? ChartStyle::number
                    : value -> String.format(Locale.ROOT, "%,." + decimals + "f", value)
                            .replace('-', '\u2212');
        }
        boolean onlyDecades = Math.log10(max / min) > 2.5;
        return value -> {
            double mantissa = value / Math.pow(10, Math.floor(Math.log10(value) + 1e-9));
            boolean shown = near(mantissa, 1) || !onlyDecades && (near(mantissa, 2) || near(mantissa, 5));
            return shown ? ChartStyle.number(value) : "";
        };
    }

    private static boolean near(double a, double b) {
        return Math.abs(a - b) < 1e-6;
    }
}
