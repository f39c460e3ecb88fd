package cs336.numbers;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * A unit of measurement. Units of time, bytes and floating-point operations are convertible to others of the same
 * dimension ({@code ms} to {@code s}, {@code B} to {@code MiB}). Any other word is a unit with its own dimension. Rates
 * are written with a slash, products with a middle dot: {@code GB/s}, {@code GB·ms/s}. Each slash divides by one unit.
 *
 * @param symbol the symbol, such as {@code ms}; empty for a pure number
 * @param factor value of this unit in base units (second, byte, operation)
 * @param dimensions exponent of each dimension; empty for a pure number
 */
public record Unit(String symbol, double factor, Map<String, Integer> dimensions) {
    /** A pure number. */
    public static final Unit NONE = new Unit("", 1, Map.of());

    private static final String TIMES = "·";

    private static final Map<String, Unit> KNOWN = new TreeMap<>();
    private static final Set<String> CONVERTIBLE = new TreeSet<>();

    static {
        register(
                "time",
                Map.of("ns", 1e-9, "us", 1e-6, "µs", 1e-6, "μs", 1e-6, "ms", 1e-3, "s", 1., "min", 60., "h", 3600.));
        register("bytes", Map.of("B", 1., "bytes", 1., "kB", 1e3, "KB", 1e3, "MB", 1e6, "GB", 1e9, "TB", 1e12));
        register("bytes", Map.of("KiB", 0x1p10, "MiB", 0x1p20, "GiB", 0x1p30, "TiB", 0x1p40));
        register("operations", Map.of("FLOP", 1., "MFLOP", 1e6, "GFLOP", 1e9, "TFLOP", 1e12, "PFLOP", 1e15));
        KNOWN.put("", NONE);
        KNOWN.put("1", NONE);
        KNOWN.put("ratio", NONE);
        KNOWN.put("×", new Unit("×", 1, Map.of()));
        KNOWN.put("%", new Unit("%", 0.01, Map.of()));
    }

    /** Copies the dimensions. */
    public Unit {
        Objects.requireNonNull(dimensions, "dimensions must not be null");
        dimensions = Map.copyOf(dimensions);
    }

    private static void register(String dimension, Map<String, Double> factors) {
        CONVERTIBLE.add(dimension);
        factors.forEach((symbol, factor) -> KNOWN.put(symbol, new Unit(symbol, factor, Map.of(dimension, 1))));
    }

    /** Parses a unit; an unknown word becomes a unit with its own dimension. */
    public static Unit parse(String symbol) {
        String trimmed =
                Objects.requireNonNull(symbol, "symbol must not be null").strip();
        int slash = trimmed.lastIndexOf('/');
        if (slash >= 0) {
            return parse(trimmed.substring(0, slash)).combined(parse(trimmed.substring(slash + 1)), -1, trimmed);
        }
        int dot = trimmed.lastIndexOf(TIMES);
        if (dot >= 0) {
            return parse(trimmed.substring(0, dot)).combined(parse(trimmed.substring(dot + 1)), 1, trimmed);
        }
        Unit known = KNOWN.get(trimmed);
        return known != null ? known : new Unit(trimmed, 1, Map.of(trimmed, 1));
    }

    /** Returns true if the unit contains time, bytes or operations, which have several units. */
    boolean isConvertible() {
        return dimensions.keySet().stream().anyMatch(CONVERTIBLE::contains);
    }

    /** Returns true if both units have the same dimensions. */
    public boolean convertibleTo(Unit other) {
        return dimensions.equals(other.dimensions);
    }

    /** Returns the product of two units. */
    Unit times(Unit other) {
        return combined(other, 1, written(List.of(symbol, other.symbol), List.of()));
    }

    /** Returns the quotient of two units. */
    Unit per(Unit other) {
        return combined(other, -1, written(List.of(symbol), List.of(other.symbol)));
    }

    /** Returns a symbol that {@link #parse} reads: the product of some symbols, divided by others. */
    private static String written(List<String> multiplied, List<String> divided) {
        var above = new ArrayList<String>();
        var below = new ArrayList<String>();
        multiplied.forEach(each -> add(each, above, below));
        divided.forEach(each -> add(each, below, above));
        for (String word : List.copyOf(below)) {
            if (above.remove(word)) {
                below.remove(word);
            }
        }
        String product = String.join(TIMES, above);
        return below.isEmpty() ? product : (above.isEmpty() ? "1" : product) + "/" + String.join("/", below);
    }

    /** Adds the factors of a symbol to those above and below the fraction bar. */
    private static void add(String symbol, List<String> above, List<String> below) {
        String[] factors = symbol.split("/");
        for (int i = 0; i < factors.length; i++) {
            for (String factor : factors[i].split(TIMES)) {
                if (!factor.isEmpty() && !factor.equals("1")) {
                    (i == 0 ? above : below).add(factor);
                }
            }
        }
    }

    private Unit combined(Unit other, int sign, String written) {
        if (written.isEmpty()) {
            return NONE;
        }
        var exponents = new TreeMap<>(dimensions);
        other.dimensions.forEach((kind, exponent) -> exponents.merge(kind, sign * exponent, Integer::sum));
        exponents.values().removeIf(exponent -> exponent == 0);
        double scale = sign > 0 ? factor * other.factor : factor / other.factor;
        return new Unit(exponents.isEmpty() && scale == 1 ? "" : written, scale, exponents);
    }

    @Override
    public String toString() {
        return symbol.isEmpty() ? "a pure number" : symbol;
    }
}
