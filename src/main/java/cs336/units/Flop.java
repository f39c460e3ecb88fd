package cs336.units;

import java.util.Locale;

/**
 * A number of floating-point operations. A multiply-add counts as two.
 *
 * @param count number of operations, at least 0
 */
public record Flop(double count) {
    /** @throws IllegalArgumentException if the count is below 0 */
    public Flop {
        if (!(count >= 0)) {
            throw new IllegalArgumentException("FLOP must be at least 0, not " + count);
        }
    }

    /** Returns {@code factor} times these operations. */
    public Flop times(double factor) {
        return new Flop(count * factor);
    }

    /** Returns the time to compute these operations at a rate. */
    public Seconds at(FlopRate rate) {
        return new Seconds(count / rate.perSecond());
    }

    @Override
    public String toString() {
        return String.format(Locale.ROOT, "%.3g FLOP", count);
    }
}
