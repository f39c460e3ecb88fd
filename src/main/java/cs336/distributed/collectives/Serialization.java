package cs336.distributed.collectives;

import java.io.Serializable;
import java.util.Base64;
import java.util.Objects;

/**
 * Conversion of values to bytes or text, to send them to another process.
 *
 * <p>A value consists of records, enums, lists, sets, maps, arrays, strings, boxed primitives, durations and null.
 * Received bytes come from other processes, so Java serialization does not read them: it would call methods of any
 * class on the class path. The bytes can only select canonical constructors of serializable records. Lists, sets and
 * maps arrive as {@code ArrayList}, {@code LinkedHashSet} and {@code LinkedHashMap}, sorted ones as {@code TreeSet} and
 * {@code TreeMap}. An object that occurs twice arrives as two objects.
 */
public final class Serialization {
    private Serialization() {}

    /**
     * Serializes a value.
     *
     * @param value may be null
     * @throws IllegalArgumentException if an object in the value is of another kind, more than 100 objects are nested
     *     in each other, or a sorted collection has a comparator
     */
    public static byte[] bytes(Serializable value) {
        return ValueEncoder.bytes(value);
    }

    /**
     * Deserializes a value.
     *
     * @throws IllegalStateException if a class of the value is not on the class path of this process
     * @throws IllegalArgumentException if the bytes are damaged
     */
    @SuppressWarnings("unchecked") // the type is the one that was sent
    public static <T> T value(byte[] bytes) {
        return (T) ValueDecoder.value(Objects.requireNonNull(bytes, "bytes must not be null"));
    }

    /** Serializes a value to one line of Base64. */
    public static String line(Serializable value) {
        return Base64.getEncoder().encodeToString(bytes(value));
    }

    /** Deserializes a value from {@link #line}; see {@link #value}. */
    public static <T> T ofLine(String line) {
        return value(Base64.getDecoder().decode(Objects.requireNonNull(line, "line must not be null")));
    }
}
