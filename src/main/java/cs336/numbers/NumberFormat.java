package cs336.numbers;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * How a quantity is written: one conversion of {@link String#format} and, after it, the unit, into which the quantity
 * is converted: {@code %.1f ms}, {@code %.2f×}, {@code %.0f%%}, {@code %,d tokens}. Without a unit the number is
 * written as it was measured, and no unit after it. {@code %g} writes a whole number without decimals.
 *
 * @param conversion such as {@code %.1f}
 * @param space whether a space stands before the unit
 * @param unit the unit to convert into; null to leave the quantity as it is
 */
record NumberFormat(String conversion, boolean space, Unit unit) {
    private static final Pattern SYNTAX = Pattern.compile("(%[+,]*(?:\\d*\\.\\d+)?[feg]|%[+,]*d)( *)(%%|[^\\s%]*)");

    static NumberFormat parse(String text) {
        Matcher match = SYNTAX.matcher(text.strip());
        if (!match.matches()) {
            throw new IllegalArgumentException("format \"" + text.strip()
                    + "\" must be one of %.1f, %,.0f, %.2e, %.3g, %d, %,d …, and after it at most a unit, as in"
                    + " \"%.1f ms\"");
        }
        String unit = match.group(3).equals("%%") ? "%" : match.group(3);
        return new NumberFormat(match.group(1), !match.group(2).isEmpty(), unit.isEmpty() ? null : Unit.parse(unit));
    }

    /** Number and unit, which no line break may part. */
    String write(Quantity quantity) {
        return number(quantity) + (unit == null ? "" : (space ? "\u00a0" : "") + unit.symbol());
    }

    /** The number alone, converted into the unit. */
    String number(Quantity quantity) {
        double value = unit == null ? quantity.value() : quantity.in(unit).value();
        if (conversion.endsWith("d")) {
            if (value != Math.rint(value)) {
                throw new IllegalArgumentException(
                        "format " + conversion + " is for whole numbers; the value is " + value);
            }
            return signed(String.format(Locale.ROOT, conversion, (long) value));
        }
        String number = String.format(Locale.ROOT, conversion, value);
        boolean count = conversion.endsWith("g") && value == Math.rint(value) && !number.contains("e");
        return signed(count ? number.replaceFirst("\\.0+$", "") : number); // 73 launches, not 73.0
    }

    private static String signed(String number) {
        return number.contains("e") ? number : number.replace('-', '\u2212');
    }
}
