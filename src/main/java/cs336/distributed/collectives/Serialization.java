package cs336.distributed.collectives;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.NotSerializableException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.Base64;

/** Conversion of Java objects to bytes or text, to send them to another process. */
public final class Serialization {
    private Serialization() {}

    /**
     * Serializes a value.
     *
     * @throws IllegalArgumentException if an object in the value is not serializable
     */
    public static byte[] bytes(Serializable value) {
        var bytes = new ByteArrayOutputStream();
        try (var out = new ObjectOutputStream(bytes)) {
            out.writeObject(value);
        } catch (NotSerializableException e) {
            throw new IllegalArgumentException(
                    "a value of " + value.getClass().getName() + " cannot be sent to another process: it contains a "
                            + e.getMessage() + ", which is not Serializable",
                    e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return bytes.toByteArray();
    }

    /**
     * Deserializes a value.
     *
     * @throws IllegalStateException if a class of the value is not on the class path of this process
     */
    @SuppressWarnings("unchecked") // the type is the one that was sent
    public static <T> T value(byte[] bytes) {
        try (var in = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
            return (T) in.readObject();
        } catch (ClassNotFoundException e) {
            throw new IllegalStateException("class " + e.getMessage() + " is not on the class path of this process", e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Serializes a value to one line of Base64. */
    public static String line(Serializable value) {
        return Base64.getEncoder().encodeToString(bytes(value));
    }

    /** Deserializes a value from {@link #line}; see {@link #value}. */
    public static <T> T ofLine(String line) {
        return value(Base64.getDecoder().decode(line));
    }
}
