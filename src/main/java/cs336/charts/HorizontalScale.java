package cs336.charts;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.DoubleStream;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.style.XYStyler;

/**
 * A numeric horizontal axis: the positions of values and ticks.
 *
 * @param spacing linear or logarithmic
 * @param min smallest value shown
 * @param max largest value shown
 */
public record HorizontalScale(Spacing spacing, double min, double max) {
    /**
     * Returns the axis that spans the given values.
     *
     * @throws IllegalArgumentException if there are none
     */
    public static HorizontalScale of(double[] values, Spacing spacing) {
        requireValues(values);
        return new HorizontalScale(
                spacing,
                DoubleStream.of(values).min().orElseThrow(),
                DoubleStream.of(values).max().orElseThrow());
    }

    static void requireValues(double[] values) {
        Objects.requireNonNull(values, "values must not be null");
        if (values.length == 0) {
            throw new IllegalArgumentException("values must contain at least one number");
        }
    }

    /** Returns the x coordinate passed to XChart: the value, or its logarithm on a logarithmic axis. */
    double toAxis(double value) {
        return spacing.toAxis(value);
    }

    /** Returns both ends of the axis, with a margin around the first and last point. */
    double[] ends() {
        double low = toAxis(min);
        double high = toAxis(max);
        double margin = high > low ? 0.03 * (high - low) : 0.5;
        return new double[] {low - margin, high + margin};
    }

    /** Sets both ends of the horizontal axis of a chart. */
    void applyTo(XYStyler styler) {
        styler.setXAxisMin(ends()[0]);
        styler.setXAxisMax(ends()[1]);
    }

    /** Returns the values that have a tick, approximately {@code most} or fewer. */
    public List<Double> ticks(int most) {
        var ticks = new ArrayList<Double>();
        double step = spacing == Spacing.LINEAR
                ? roundUp((max - min) / (most - 1))
                : Math.max(1, Math.ceil((toAxis(max) - toAxis(min)) / most));
        if (spacing == Spacing.LOG10 && toAxis(max) - toAxis(min) < 2) {
            for (double decade = Math.floor(toAxis(min)); decade <= toAxis(max); decade++) {
                for (int digit : new int[] {1, 2, 5}) {
                    addWithin(ticks, digit * Math.pow(10, decade));
                }
            }
            return ticks.isEmpty() ? roundNumbers(most) : ticks;
        }
        // Ticks of a linear axis are multiples of the step; those of a logarithmic axis start at a whole power.
        double first = spacing == Spacing.LINEAR ? Math.ceil(ends()[0] / step) * step : Math.ceil(toAxis(min) - 1e-9);
        // Where numbers are so large that a step or the end of the axis is lost in rounding, the number of ticks ends
        // it.
        for (int i = 0; i <= 2 * most && first + i * step <= ends()[1]; i++) {
            addWithin(ticks, spacing.fromAxis(first + i * step));
        }
        return ticks.isEmpty() ? roundNumbers(most) : ticks;
    }

    /** Returns the ticks of a logarithmic axis that is too short to contain a power. */
    private List<Double> roundNumbers(int most) {
        var ticks = new ArrayList<Double>();
        if (spacing != Spacing.LINEAR) {
            new HorizontalScale(Spacing.LINEAR, min, max).ticks(most).forEach(value -> addWithin(ticks, value));
        }
        return ticks;
    }

    /**
     * Returns the ticks of a chart, approximately 11 or fewer.
     *
     * @param plotWidth width of the plot in drawing units
     * @param distance smallest distance between two ticks in pixels
     */
    List<Frame.Tick> ticks(XYChart chart, double plotWidth, int distance) {
        int most = Math.max(3, Math.min(11, (int) (plotWidth / (distance * ChartStyle.UNITS))));
        return ticks(most).stream()
                .map(value -> new Frame.Tick(chart.getScreenXFromChart(toAxis(value)), ChartStyle.number(value)))
                .toList();
    }

    private void addWithin(List<Double> ticks, double value) {
        double position = toAxis(value);
        if (position >= ends()[0] && position <= ends()[1]) {
            ticks.add(value + 0.0); // no negative zero
        }
    }

    /** Rounds up to one of … 0.1, 0.2, 0.5, 1, 2, 5 …; returns 1 for 0. */
    static double roundUp(double least) {
        if (least <= 0) {
            return 1;
        }
        double decade = Math.pow(10, Math.floor(Math.log10(least)));
        for (int digit : new int[] {1, 2, 5}) {
            if (digit * decade >= least * (1 - 1e-9)) {
                return digit * decade;
            }
        }
        return 10 * decade;
    }
}
