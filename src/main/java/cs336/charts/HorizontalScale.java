package cs336.charts;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.DoubleStream;

/**
 * The horizontal axis of a chart of numbers: where a value stands and where the ticks are.
 *
 * @param min least value shown
 * @param max greatest value shown
 */
public record HorizontalScale(Spacing spacing, double min, double max) {
    public static HorizontalScale of(double[] values, Spacing spacing) {
        return new HorizontalScale(
                spacing,
                DoubleStream.of(values).min().orElseThrow(),
                DoubleStream.of(values).max().orElseThrow());
    }

    /** The position that XChart is given for a value: on a logarithmic axis its logarithm. */
    double toAxis(double value) {
        return switch (spacing) {
            case LINEAR -> value;
            case LOG10 -> Math.log10(value);
            case LOG2 -> Math.log(value) / Math.log(2);
        };
    }

    private double fromAxis(double position) {
        return switch (spacing) {
            case LINEAR -> position;
            case LOG10 -> Math.pow(10, position);
            case LOG2 -> Math.pow(2, position);
        };
    }

    /** The axis's ends, with a little room beside the first and last point. */
    double[] ends() {
        double low = toAxis(min);
        double high = toAxis(max);
        double room = high > low ? 0.03 * (high - low) : 0.5;
        return new double[] {low - room, high + room};
    }

    /** The values that get a tick, about {@code most} at most. */
    public List<Double> ticks(int most) {
        var ticks = new ArrayList<Double>();
        double step = spacing == Spacing.LINEAR
                ? roundStep((max - min) / (most - 1))
                : Math.max(1, Math.ceil((toAxis(max) - toAxis(min)) / most));
        if (spacing == Spacing.LOG10 && toAxis(max) - toAxis(min) < 2) {
            for (double decade = Math.floor(toAxis(min)); decade <= toAxis(max); decade++) {
                for (int digit : new int[] {1, 2, 5}) {
                    addWithin(ticks, digit * Math.pow(10, decade));
                }
            }
            return ticks;
        }
        // On a linear axis zero is a tick; on a logarithmic one the first whole power is.
        double first = spacing == Spacing.LINEAR ? Math.ceil(ends()[0] / step) * step : Math.ceil(toAxis(min) - 1e-9);
        for (int i = 0; first + i * step <= ends()[1]; i++) {
            addWithin(ticks, fromAxis(first + i * step));
        }
        return ticks;
    }

    private void addWithin(List<Double> ticks, double value) {
        double position = toAxis(value);
        if (position >= ends()[0] && position <= ends()[1]) {
            ticks.add(value + 0.0); // no negative zero
        }
    }

    /** The next of … 0.1, 0.2, 0.5, 1, 2, 5 … at or above a positive number; 1 for 0. */
    static double roundStep(double least) {
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
