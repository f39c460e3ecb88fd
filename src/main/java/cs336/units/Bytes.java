package cs336.units;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An amount of memory or of traffic. One GB is 10⁹ bytes, one GiB is 2³⁰ bytes. Vendors use GB and many tools use GiB,
 * so {@link #toString} shows both decimal and binary units from 1 MB on.
 *
 * @param count number of bytes, at least 0
 */
public record Bytes(long count) implements Comparable<Bytes> {
    /** Zero bytes. */
    public static final Bytes NONE = new Bytes(0);

    private static final Pattern NUMBER_AND_UNIT = Pattern.compile("(\\d+(?:\\.\\d+)?) ?([A-Za-z]+)");
    private static final Map<String, Double> UNITS = new LinkedHashMap<>();

    static {
        double decimal = 1;
        double binary = 1;
        for (String prefix : new String[] {"", "K", "M", "G", "T"}) {
            UNITS.put(prefix + "B", decimal);
            if (!prefix.isEmpty()) {
                UNITS.put(prefix + "iB", binary);
            }
            decimal *= 1000;
            binary *= 1024;
        }
        UNITS.put("kB", 1e3); // as toString writes it
    }

    /** @throws IllegalArgumentException if the count is below 0 */
    public Bytes {
        if (count < 0) {
            throw new IllegalArgumentException("bytes must be at least 0, not " + count);
        }
    }

    /** Returns the size of {@code elements} elements of {@code bytesEach} bytes. */
    public static Bytes of(long elements, int bytesEach) {
        return new Bytes(CheckedMath.times("bytes", elements, bytesEach));
    }

    /**
     * Parses an amount such as {@code 95GB}, {@code 95 GB} or {@code 79.6 GiB}.
     *
     * @throws IllegalArgumentException if the text is not a number followed by one of the units B, KB … TB, KiB … TiB,
     *     or is above 2⁶³ − 1 bytes
     */
    public static Bytes parse(String text) {
        Matcher match = NUMBER_AND_UNIT.matcher(text.strip());
        Double unit = match.matches() ? UNITS.get(match.group(2)) : null;
        if (unit == null) {
            throw new IllegalArgumentException("bytes '" + text + "' must be a number and a unit, such as 95GB; units: "
                    + String.join(", ", UNITS.keySet()));
        }
        double count = Double.parseDouble(match.group(1)) * unit;
        if (count > Long.MAX_VALUE) {
            throw new IllegalArgumentException("bytes '" + text + "' must be at most 2^63 - 1 B, about 9,223,372 TB");
        }
        return new Bytes(Math.round(count));
    }

    /** Returns the sum of both amounts. */
    public Bytes plus(Bytes other) {
        return new Bytes(CheckedMath.plus("bytes", count, other.count));
    }

    /** Returns {@code factor} times this amount. */
    public Bytes times(long factor) {
        return new Bytes(CheckedMath.times("bytes", count, factor));
    }

    /**
     * Returns the size of the largest of n shards whose sizes differ by at most one byte.
     *
     * @throws IllegalArgumentException if n is below 1
     */
    public Bytes sharedBy(long n) {
        if (n < 1) {
            throw new IllegalArgumentException("n must be at least 1, not " + n);
        }
        return new Bytes(IntegerMath.ceilDiv(count, n));
    }

    /**
     * Returns {@code factor} times this amount, rounded to the nearest byte.
     *
     * @throws ArithmeticException if that is above 2⁶³ − 1 bytes, or the factor is NaN
     */
    public Bytes times(double factor) {
        double product = count * factor;
        if (!(product <= Long.MAX_VALUE)) {
            throw new ArithmeticException(factor + " × " + count + " bytes are above 2^63 - 1");
        }
        return new Bytes(Math.round(product));
    }

    /** Returns the time to move this amount at a bandwidth. */
    public Seconds over(Bandwidth bandwidth) {
        return new Seconds(count / bandwidth.bytesPerSecond());
    }

    /**
     * Returns the bandwidth that moves this amount in the given time; infinite for a time of 0.
     *
     * @throws IllegalArgumentException if this amount is 0, because a bandwidth must be above 0
     */
    public Bandwidth in(Seconds time) {
        return new Bandwidth(count / time.value());
    }

    /** Returns the amount in GB (10⁹ bytes). */
    public double gb() {
        return count / 1e9;
    }

    /** Returns the amount in GiB (2³⁰ bytes). */
    public double gib() {
        return count / 0x1p30;
    }

    @Override
    public int compareTo(Bytes other) {
        return Long.compare(count, other.count);
    }

    @Override
    public String toString() {
        if (count < 1000) {
            return count + " B";
        }
        if (count < 1_000_000) {
            return String.format(Locale.ROOT, "%,.1f kB", count / 1e3);
        }
        if (count < 1_000_000_000) {
            return String.format(Locale.ROOT, "%,.1f MB (%,.1f MiB)", count / 1e6, count / 0x1p20);
        }
        return String.format(Locale.ROOT, "%,.1f GB (%,.1f GiB)", gb(), gib());
    }
}
