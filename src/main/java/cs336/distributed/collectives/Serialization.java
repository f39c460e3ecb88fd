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

/** Java objects on their way from one process to another. */
public final class Serialization {
    private Serialization() {}

    /**
     * Turns a value into bytes.
     *
     * @throws IllegalArgumentException if something in it is not serializable
     */
    public static byte[] bytes(Serializable value) {
        var bytes = new ByteArrayOutputStream();
        try (var out = new ObjectOutputStream(bytes)) {
            out.writeObject(value);
        } catch (NotSerializableException e) {
            throw new IllegalArgumentException(
                    "a value of " + value.getClass().getName() + " cannot be sent to another process: " + e.getMessage()
                            + " in it is not Serializable",
                    e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return bytes.toByteArray();
    }

    /**
     * Turns bytes back into the value they were made from.
     *
     * @throws IllegalStateException if a class of it is not on this process's class path
     */
    @SuppressWarnings("unchecked") // the sender's own type
    public static <T> T value(byte[] bytes) {
        try (var in = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
            return (T) in.readObject();
        } catch (ClassNotFoundException e) {
            throw new IllegalStateException("class " + e.getMessage() + " is not on the class path of this process", e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The same as one line of text. */
    public static String line(Serializable value) {
        return Base64.getEncoder().encodeToString(bytes(value));
    }

    /** See {@link #value}. */
    public static <T> T ofLine(String line) {
        return value(Base64.getDecoder().decode(line));
    }
}
