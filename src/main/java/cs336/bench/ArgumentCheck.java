package cs336.bench;

import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Checks of arguments. Each error message names the argument, its value and the allowed values. */
public final class ArgumentCheck {
    private static final Pattern LINE_BREAK = Pattern.compile("\\R");

    private ArgumentCheck() {}

    /**
     * Checks that a value is at least {@code least} and fits into an {@code int}.
     *
     * @param name the argument's name
     * @return the value
     * @throws IllegalArgumentException if the value is too small or too large
     */
    public static int atLeast(String name, int least, long value) {
        if (value < least) {
            throw new IllegalArgumentException(name + " must be at least " + least + ", not " + value);
        }
        if (value > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(name + " must be at most " + Integer.MAX_VALUE + ", not " + value);
        }
        return (int) value;
    }

    /**
     * Checks that a text has no line break, because a cell of a CSV file of measurements cannot contain one.
     *
     * @throws IllegalArgumentException if it has one
     */
    static void oneLine(String name, String text) {
        if (LINE_BREAK.matcher(text).find()) {
            throw new IllegalArgumentException(name + " must not contain a line break: '"
                    + LINE_BREAK.matcher(text).replaceAll("\\\\n") + "'");
        }
    }

    /**
     * Returns the value whose {@link Object#toString} equals the label.
     *
     * @param what the kind of value, such as {@code pass}
     * @throws IllegalArgumentException if there is none; the message lists the known values
     */
    public static <T> T oneOf(String what, String label, List<T> values) {
        for (T value : values) {
            if (value.toString().equals(label)) {
                return value;
            }
        }
        String known = values.stream().map(T::toString).collect(Collectors.joining(", "));
        throw new IllegalArgumentException(what + " '" + label + "' is unknown; known: " + known);
    }
}
