package cs336.bench;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
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
        return between(name, least, Integer.MAX_VALUE, value);
    }

    /**
     * Checks that a value is at least {@code least} and at most {@code most}.
     *
     * @param name the argument's name
     * @return the value
     * @throws IllegalArgumentException if the value is too small or too large
     */
    public static int between(String name, int least, int most, long value) {
        if (value < least) {
            throw new IllegalArgumentException(name + " must be at least " + least + ", not " + value);
        }
        if (value > most) {
            throw new IllegalArgumentException(name + " must be at most " + most + ", not " + value);
        }
        return (int) value;
    }

    /**
     * Checks that files can be created in a folder, by creating and deleting one. If the folder is missing, checks the
     * folder in which it would be created; it is still missing afterwards, because another option may be wrong.
     *
     * @param option the option that names the folder
     * @throws IllegalArgumentException if the name is empty
     * @throws IOException if the folder or a file in it cannot be created; the message names the option
     */
    public static void writableFolder(String option, Path folder) throws IOException {
        notEmpty(option, folder);
        try {
            Path existing = folder.toAbsolutePath();
            while (!Files.exists(existing, LinkOption.NOFOLLOW_LINKS)) {
                existing = existing.getParent();
            }
            if (!Files.isDirectory(existing)) {
                throw new NotDirectoryException(existing.toString());
            }
            requireNewFiles(existing);
        } catch (IOException e) {
            throw WholeFile.notWritten(option + " " + folder, e);
        }
    }

    /**
     * Checks that a file can be written. Creates its folder if it is missing, but neither creates nor changes the file.
     *
     * @param option the option that names the file
     * @throws IllegalArgumentException if the name is empty
     * @throws IOException if the file is a folder, is read-only, or cannot be created; the message names the option
     */
    public static void writableFile(String option, Path file) throws IOException {
        notEmpty(option, file);
        Path folder = file.toAbsolutePath().getParent();
        if (folder == null || Files.isDirectory(file)) {
            throw new IOException(option + " " + file + " cannot be written: it is a folder");
        }
        if (Files.exists(file) && !Files.isWritable(file)) {
            throw new IOException(option + " " + file + " cannot be written: it is read-only");
        }
        try {
            Files.createDirectories(folder);
            if (!Files.exists(file)) {
                requireNewFiles(folder);
            }
        } catch (IOException e) {
            throw WholeFile.notWritten(option + " " + file, e);
        }
    }

    /**
     * Checks that the name of a file or folder is not empty.
     *
     * @param option the option that names it
     * @throws IllegalArgumentException if it is empty
     */
    public static void notEmpty(String option, Path path) {
        if (path.toString().isEmpty()) {
            throw new IllegalArgumentException(option + " must not be empty");
        }
    }

    private static void requireNewFiles(Path folder) throws IOException {
        try {
            Files.delete(Files.createTempFile(folder, ".cs336-", null));
        } catch (FileSystemException e) { // names the temporary file
            throw new IOException("no file can be created in " + folder, e);
        }
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
