package cs336.units;

import java.util.Locale;

/**
 * A computed duration. {@link java.time.Duration} would round it to whole nanoseconds.
 *
 * @param value the duration in seconds, at least 0
 */
public record Seconds(double value) implements Comparable<Seconds> {
    /** Zero seconds. */
    public static final Seconds ZERO = new Seconds(0);

    /** @throws IllegalArgumentException if the value is below 0 or NaN */
    public Seconds {
        if (!(value >= 0)) {
            throw new IllegalArgumentException("seconds must be at least 0, not " + value);
        }
    }

    /** Returns a duration given in milliseconds. */
    public static Seconds ms(double value) {
        return new Seconds(value / 1e3);
    }

    /** Returns a duration given in microseconds. */
    public static Seconds us(double value) {
        return new Seconds(value / 1e6);
    }

    /** Returns the sum of both durations. */
    public Seconds plus(Seconds other) {
        return new Seconds(value + other.value);
    }

    /** Returns {@code factor} times this duration. */
    public Seconds times(double factor) {
        return new Seconds(value * factor);
    }

    /** Returns the duration in milliseconds. */
    public double ms() {
        return value * 1e3;
    }

    /** Returns the duration in microseconds. */
    public double us() {
        return value * 1e6;
    }

    @Override
    public int compareTo(Seconds other) {
        return Double.compare(value, other.value);
    }

    @Override
    public String toString() {
        if (value < 1e-3) {
            return String.format(Locale.ROOT, "%.2f µs", value * 1e6);
        }
        if (value < 1) {
            return String.format(Locale.ROOT, "%.3f ms", value * 1e3);
        }
        return String.format(Locale.ROOT, "%,.3f s", value);
    }
}
