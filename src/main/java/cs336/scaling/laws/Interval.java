package cs336.scaling.laws;

/**
 * Where a value lies by what was observed.
 *
 * @param low lower end
 * @param high upper end, not below {@code low}
 */
public record Interval(double low, double high) {
    /** @throws IllegalArgumentException if the ends are in the wrong order or no numbers */
    public Interval {
        if (!(low <= high)) throw new IllegalArgumentException("low must not be above high: " + low + ", " + high);
    }

    /** Whether a value lies in it. */
    public boolean contains(double value) {
        return low <= value && value <= high;
    }
}
