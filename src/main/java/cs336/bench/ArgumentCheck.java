package cs336.bench;

import java.util.List;
import java.util.stream.Collectors;

/** Checks of arguments that say what is wrong by the argument's name. */
public final class ArgumentCheck {
    private ArgumentCheck() {}

    /**
     * A whole number that must be neither too small nor too large for an {@code int}.
     *
     * @return the value
     * @throws IllegalArgumentException if it is
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
     * The one of some values that is written so.
     *
     * @param what the argument names, such as {@code pass}
     * @throws IllegalArgumentException if there is none; the message lists those there are, in their order
     */
    public static <T> T oneOf(String what, String label, List<T> values) {
        for (T value : values) if (value.toString().equals(label)) return value;
        String known = values.stream().map(T::toString).collect(Collectors.joining(", "));
        throw new IllegalArgumentException(what + " '" + label + "' is unknown; known: " + known);
    }
}
