package cs336.charts;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** A text file on the class path, such as a style sheet or a script that is copied into a page. */
public final class TextResource {
    private TextResource() {}

    /**
     * Returns the content of a UTF-8 file.
     *
     * @param type a class in the package of the file
     * @param name name of the file, relative to this package, or absolute if it starts with {@code /}
     * @throws IllegalArgumentException if there is no such file
     */
    public static String read(Class<?> type, String name) {
        try (InputStream file = type.getResourceAsStream(name)) {
            if (file == null) {
                throw new IllegalArgumentException("there is no file '" + name + "' next to " + type.getName());
            }
            return new String(file.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
