package cs336.units;

import java.util.Locale;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Thousands separators in numbers that people read: a comma between groups of three digits, as in {@code 65,536}. Years
 * have none, and neither have files, code, and values that a user may copy into an option.
 */
public final class Separators {
    private static final Pattern YEAR = Pattern.compile("\\byear\\b", Pattern.CASE_INSENSITIVE);
    private static final Pattern WHOLE = Pattern.compile("(-?\\d{4,18})( .*)?");

    private Separators() {}

    /** Returns a whole number with separators. */
    public static String of(long number) {
        return String.format(Locale.ROOT, "%,d", number);
    }

    /**
     * Returns a value of a column of a table, or of a parameter: with separators if it is a whole number, which a unit
     * may follow, as in {@code 8192 tokens}.
     *
     * @param name name of the column or parameter
     */
    public static String of(String name, String value) {
        Matcher number = WHOLE.matcher(Objects.requireNonNull(value, "value must not be null"));
        return isYear(name) || !number.matches()
                ? value
                : of(Long.parseLong(number.group(1))) + Objects.requireNonNullElse(number.group(2), "");
    }

    /** Returns whether the numbers of a column or parameter are years, which have no separators. */
    public static boolean isYear(String name) {
        return YEAR.matcher(Objects.requireNonNull(name, "name must not be null"))
                .find();
    }
}
