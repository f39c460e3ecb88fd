package cs336.units;

import java.util.Locale;

/**
 * A data rate.
 *
 * @param bytesPerSecond bytes per second, above 0; infinite for an ideal link
 */
public record Bandwidth(double bytesPerSecond) implements Comparable<Bandwidth> {
    /** @throws IllegalArgumentException if {@code bytesPerSecond} is not above 0 */
    public Bandwidth {
        if (!(bytesPerSecond > 0)) {
            throw new IllegalArgumentException("bandwidth must be above 0 bytes/s, not " + bytesPerSecond);
        }
    }

    /** Returns a bandwidth given in GB/s (10⁹ bytes per second). */
    public static Bandwidth gb(double perSecond) {
        return new Bandwidth(perSecond * 1e9);
    }

    /** Returns the bandwidth in GB/s (10⁹ bytes per second). */
    public double gb() {
        return bytesPerSecond / 1e9;
    }

    /** Returns the bandwidth of several parallel links, or of a fraction of one. */
    public Bandwidth times(double factor) {
        return new Bandwidth(bytesPerSecond * factor);
    }

    @Override
    public int compareTo(Bandwidth other) {
        return Double.compare(bytesPerSecond, other.bytesPerSecond);
    }

    @Override
    public String toString() {
        return String.format(Locale.ROOT, "%,.1f GB/s", gb());
    }
}
