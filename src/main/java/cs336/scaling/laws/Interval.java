package cs336.scaling.laws;

/**
 * A confidence interval.
 *
 * @param low lower end
 * @param high upper end, not below {@code low}
 */
public record Interval(double low, double high) {
    /** @throws IllegalArgumentException if {@code low} is above {@code high}, or one of them is NaN */
    public Interval {
        if (!(low <= high)) {
            throw new IllegalArgumentException("low must be at most high, not " + low + " > " + high);
        }
    }

    /** Returns whether the interval contains a value, its ends included. */
    public boolean contains(double value) {
        return low <= value && value <= high;
    }
}
