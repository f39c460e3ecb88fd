package cs336.units;

import java.util.Locale;

/**
 * A number of tokens.
 *
 * @param count number of tokens, at least 0
 */
public record Tokens(long count) {
    /** @throws IllegalArgumentException if the count is below 0 */
    public Tokens {
        if (count < 0) {
            throw new IllegalArgumentException("tokens must be at least 0, not " + count);
        }
    }

    /** Returns the number of tokens in a batch of sequences of the same length. */
    public static Tokens of(long sequences, long length) {
        return new Tokens(CheckedMath.times("tokens", sequences, length));
    }

    /** Returns {@code factor} times this number of tokens. */
    public Tokens times(long factor) {
        return new Tokens(CheckedMath.times("tokens", count, factor));
    }

    @Override
    public String toString() {
        return String.format(Locale.ROOT, "%,d tokens", count);
    }
}
