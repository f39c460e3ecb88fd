package cs336.units;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An amount of memory or of traffic. One GB is 10⁹ bytes, one GiB 2³⁰: what is sold is counted in the first, what tools
 * show often in the second, so both are written.
 *
 * @param count of bytes, at least 0
 */
public record Bytes(long count) implements Comparable<Bytes> {
    public static final Bytes NONE = new Bytes(0);

    private static final Pattern WRITTEN = Pattern.compile("(\\d+(?:\\.\\d+)?) ?([A-Za-z]+)");
    private static final Map<String, Double> UNITS = new LinkedHashMap<>();

    static {
        double decimal = 1;
        double binary = 1;
        for (String prefix : new String[] {"", "K", "M", "G", "T"}) {
            UNITS.put(prefix + "B", decimal);
            if (!prefix.isEmpty()) UNITS.put(prefix + "iB", binary);
            decimal *= 1000;
            binary *= 1024;
        }
    }

    /** @throws IllegalArgumentException if the count is below 0 */
    public Bytes {
        if (count < 0) throw new IllegalArgumentException("bytes must be at least 0, not " + count);
    }

    /** Returns the size of {@code numbers} elements of {@code bytesEach} bytes. */
    public static Bytes of(long numbers, int bytesEach) {
        return new Bytes(Math.multiplyExact(numbers, (long) bytesEach));
    }

    /**
     * Reads an amount such as {@code 95GB}, {@code 95 GB} or {@code 79.6 GiB}.
     *
     * @throws IllegalArgumentException if it is not a number and one of the units B, KB … TB, KiB … TiB
     */
    public static Bytes parse(String text) {
        Matcher match = WRITTEN.matcher(text.strip());
        Double unit = match.matches() ? UNITS.get(match.group(2)) : null;
        if (unit == null) {
            throw new IllegalArgumentException("bytes '" + text + "' must be a number and a unit, such as 95GB; units: "
                    + String.join(", ", UNITS.keySet()));
        }
        return new Bytes(Math.round(Double.parseDouble(match.group(1)) * unit));
    }

    public Bytes plus(Bytes other) {
        return new Bytes(Math.addExact(count, other.count));
    }

    /** So much each, of so many. */
    public Bytes times(long factor) {
        return new Bytes(Math.multiplyExact(count, factor));
    }

    /** The largest of n shares that differ by at most one byte. */
    public Bytes sharedBy(long n) {
        if (n < 1) throw new IllegalArgumentException("bytes must be shared by at least 1, not " + n);
        return new Bytes(-Math.floorDiv(-count, n));
    }

    /** A part of it, to the nearest byte. */
    public Bytes times(double part) {
        return new Bytes(Math.round(count * part));
    }

    /** How long it takes to move it. */
    public Seconds over(Bandwidth bandwidth) {
        return new Seconds(count / bandwidth.bytesPerSecond());
    }

    /** How fast they move that take so long. */
    public Bandwidth in(Seconds time) {
        return new Bandwidth(count / time.value());
    }

    /** In units of 10⁹ bytes. */
    public double gb() {
        return count / 1e9;
    }

    /** In units of 2³⁰ bytes. */
    public double gib() {
        return count / 0x1p30;
    }

    @Override
    public int compareTo(Bytes other) {
        return Long.compare(count, other.count);
    }

    @Override
    public String toString() {
        if (count < 1000) return count + " B";
        if (count < 10_000_000) return String.format(Locale.ROOT, "%.1f kB", count / 1e3);
        if (count < 1_000_000_000) return String.format(Locale.ROOT, "%.1f MB (%.1f MiB)", count / 1e6, count / 0x1p20);
        return String.format(Locale.ROOT, "%.1f GB (%.1f GiB)", gb(), gib());
    }
}
