package cs336.numbers;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A format for quantities: one conversion of {@link String#format}, optionally followed by a unit, such as {@code %.1f
 * ms}, {@code %.2f×}, {@code %.0f%%} and {@code %d tokens}. Numbers have thousands separators, with or without the flag
 * {@code ,} of the conversion. The quantity is converted to the unit. Without a unit, the number is written in its
 * stored unit and the unit is omitted, which {@link #write} allows for counts and pure numbers only. {@code %g} formats
 * whole numbers without decimals.
 *
 * @param conversion conversion such as {@code %.1f}
 * @param space true to write a space in front of the unit
 * @param unit unit to convert to; null to keep the stored unit
 */
record NumberFormat(String conversion, boolean space, Unit unit) {
    private static final Pattern SYNTAX = Pattern.compile("(%[+,]*(?:\\d*\\.\\d+)?[feg]|%[+,]*d)( *)(%%|[^\\s%]*)");

    /** The number of rounding errors that calculating and converting a whole number may add, such as 0.57 to 57 %. */
    private static final int MOST_ROUNDINGS = 4;

    /**
     * Parses a format.
     *
     * @throws IllegalArgumentException if the text is not a conversion followed by at most one unit
     */
    static NumberFormat parse(String text) {
        Matcher match = SYNTAX.matcher(text.strip());
        if (!match.matches()) {
            throw new IllegalArgumentException("format \"" + text.strip()
                    + "\" must be a conversion such as %.1f, %,.0f, %.2e, %.3g, %d or %,d, followed by at most one unit, as in"
                    + " \"%.1f ms\"");
        }
        String unit = match.group(3).equals("%%") ? "%" : match.group(3);
        return new NumberFormat(match.group(1), !match.group(2).isEmpty(), unit.isEmpty() ? null : Unit.parse(unit));
    }

    /**
     * Returns the number and the unit, joined by a no-break space.
     *
     * @throws IllegalArgumentException if the format has no unit and the quantity is a time, a size, an amount of work
     *     or a rate of these
     */
    String write(Quantity quantity) {
        Unit of = quantity.unit();
        if (unit == null
                && (of.isConvertible() || of.factor() != 1 && !of.symbol().equals("%"))) {
            throw new IllegalArgumentException("the number is in " + quantity.unit() + "; the format must have a unit,"
                    + " as in \"" + conversion + " " + quantity.unit().symbol() + "\"");
        }
        return number(quantity) + (unit == null ? "" : (space ? "\u00a0" : "") + unit.symbol());
    }

    /** Returns the number without the unit, converted to the unit. */
    String number(Quantity quantity) {
        double value = unit == null ? quantity.value() : quantity.in(unit).value();
        if (conversion.endsWith("d")) {
            double whole = Math.rint(value);
            boolean isWhole = Math.abs(value - whole) <= MOST_ROUNDINGS * Math.ulp(value);
            if (!isWhole || Math.abs(value) >= Long.MAX_VALUE) {
                throw new IllegalArgumentException(
                        "format " + conversion + " needs a whole number; the value is " + value);
            }
            return signed(String.format(Locale.ROOT, separated(), (long) whole));
        }
        String number = String.format(Locale.ROOT, separated(), value);
        boolean wholeNumber = conversion.endsWith("g") && value == Math.rint(value) && !number.contains("e");
        return signed(wholeNumber ? number.replaceFirst("\\.0+$", "") : number); // 73, not 73.0
    }

    private String separated() {
        return conversion.contains(",") || conversion.endsWith("e") ? conversion : "%," + conversion.substring(1);
    }

    private static String signed(String number) {
        return number.contains("e") ? number : number.replace('-', '\u2212');
    }
}
