package cs336.units;

import java.util.Locale;

/**
 * Floating-point operations; a multiplication and an addition are two.
 *
 * @param count at least 0; a whole number where it is below 2⁵³
 */
public record Flop(double count) {
    /** @throws IllegalArgumentException if the count is below 0 */
    public Flop {
        if (!(count >= 0)) throw new IllegalArgumentException("FLOP must be at least 0, not " + count);
    }

    public Flop times(double factor) {
        return new Flop(count * factor);
    }

    /** How long they take. */
    public Seconds at(FlopRate rate) {
        return new Seconds(count / rate.perSecond());
    }

    @Override
    public String toString() {
        return String.format(Locale.ROOT, "%.3g FLOP", count);
    }
}
