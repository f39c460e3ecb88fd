package cs336.units;

import java.util.Locale;

/**
 * How fast bytes move.
 *
 * @param bytesPerSecond above 0; infinite for a link that takes no time
 */
public record Bandwidth(double bytesPerSecond) implements Comparable<Bandwidth> {
    /** @throws IllegalArgumentException if it is not above 0 */
    public Bandwidth {
        if (!(bytesPerSecond > 0)) {
            throw new IllegalArgumentException("bandwidth must be above 0 bytes/s, not " + bytesPerSecond);
        }
    }

    /** So many 10⁹ bytes a second. */
    public static Bandwidth gb(double perSecond) {
        return new Bandwidth(perSecond * 1e9);
    }

    /** In units of 10⁹ bytes a second. */
    public double gb() {
        return bytesPerSecond / 1e9;
    }

    /** Several links side by side, or a share of one. */
    public Bandwidth times(double factor) {
        return new Bandwidth(bytesPerSecond * factor);
    }

    @Override
    public int compareTo(Bandwidth other) {
        return Double.compare(bytesPerSecond, other.bytesPerSecond);
    }

    @Override
    public String toString() {
        return String.format(Locale.ROOT, "%.1f GB/s", gb());
    }
}
