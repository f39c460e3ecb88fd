package cs336.bench;

/** Checks of arguments that say what is wrong by the argument's name. */
public final class Argument {
    private Argument() {}

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
}
