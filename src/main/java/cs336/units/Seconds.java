package cs336.units;

import java.util.Locale;

/**
 * A span of time on paper; {@link java.time.Duration} ends at whole nanoseconds.
 *
 * @param value in seconds, at least 0
 */
public record Seconds(double value) implements Comparable<Seconds> {
    public static final Seconds ZERO = new Seconds(0);

    /** @throws IllegalArgumentException if it is below 0 or not a number */
    public Seconds {
        if (!(value >= 0)) throw new IllegalArgumentException("seconds must be at least 0, not " + value);
    }

    public static Seconds ms(double value) {
        return new Seconds(value / 1e3);
    }

    public static Seconds us(double value) {
        return new Seconds(value / 1e6);
    }

    public Seconds plus(Seconds other) {
        return new Seconds(value + other.value);
    }

    public Seconds times(double factor) {
        return new Seconds(value * factor);
    }

    public double ms() {
        return value * 1e3;
    }

    public double us() {
        return value * 1e6;
    }

    @Override
    public int compareTo(Seconds other) {
        return Double.compare(value, other.value);
    }

    @Override
    public String toString() {
        if (value < 1e-3) return String.format(Locale.ROOT, "%.2f µs", value * 1e6);
        if (value < 1) return String.format(Locale.ROOT, "%.3f ms", value * 1e3);
        return String.format(Locale.ROOT, "%.3f s", value);
    }
}
