package cs336.bench;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/**
 * Files that are read or written at once. Errors name the file and, in a text, the line.
 *
 * <p>A written file appears when it is complete and on disk. If the disk is full or the process is killed, a file that
 * existed before is unchanged.
 */
public final class WholeFile {
    private static final String UNFINISHED = ".part";
    private static final int TYPE = 0170000; // the bits of a file's mode that contain its type; see man 7 inode
    private static final int CHARACTER_DEVICE = 0020000;

    private WholeFile() {}

    /**
     * Returns the text of a file in UTF-8.
     *
     * @throws IOException if the file cannot be read or is not UTF-8; the message names the file and the line
     */
    public static String read(Path file) throws IOException {
        requireFile(file);
        byte[] bytes = Files.readAllBytes(file);
        try {
            return StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(bytes))
                    .toString();
        } catch (CharacterCodingException e) {
            throw new IOException("%s, line %d: the text is not UTF-8".formatted(file, lineOfError(bytes)), e);
        }
    }

    /**
     * Checks that a path is neither empty nor a folder, because the error of a read does not name it, nor a character
     * device such as /dev/zero, which may have no end. A pipe is a file.
     *
     * @throws IOException if it is one of them
     */
    public static void requireFile(Path file) throws IOException {
        if (file.toString().isEmpty()) {
            throw new IOException("the name of a file must not be empty");
        }
        if (Files.isDirectory(file)) {
            throw new IOException(file + " is a folder, not a file");
        }
        if (Files.exists(file) && ((int) Files.getAttribute(file, "unix:mode") & TYPE) == CHARACTER_DEVICE) {
            throw new IOException(file + " is a device, not a file");
        }
    }

    /**
     * Checks a file that is read several times: as {@link #requireFile}, and it must not be a pipe, whose content can
     * be read only once. A missing file is no error.
     *
     * @throws IOException if it is another kind of file
     */
    public static void requireRegularFile(Path file) throws IOException {
        requireFile(file);
        if (Files.exists(file) && !Files.isRegularFile(file)) {
            throw new IOException(file + " is read several times, so it must be a regular file, not a pipe");
        }
    }

    private static int lineOfError(byte[] bytes) {
        CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
        ByteBuffer in = ByteBuffer.wrap(bytes);
        decoder.decode(in, CharBuffer.allocate(bytes.length), true);
        int line = 1;
        for (int i = 0; i < in.position(); i++) {
            line += bytes[i] == '\n' ? 1 : 0;
        }
        return line;
    }

    /** The content of a file. */
    @FunctionalInterface
    public interface FileContent {
        /** Writes the content; may close the stream. */
        void writeTo(OutputStream out) throws IOException;
    }

    /** An action that reads or writes files. */
    @FunctionalInterface
    public interface FileAction {
        /** Reads or writes the files. */
        void run() throws IOException;
    }

    /** Writes a text in UTF-8 and returns the file. */
    public static Path write(Path file, String text) throws IOException {
        return write(file, out -> out.write(text.getBytes(StandardCharsets.UTF_8)));
    }

    /**
     * Writes a file and returns it. An existing file keeps its permissions. If the file is a symbolic link, its target
     * is replaced. Devices, pipes and targets of links that do not exist yet are written directly.
     *
     * @throws IOException if the file cannot be written; the message names it
     */
    public static Path write(Path file, FileContent content) throws IOException {
        try {
            if (Files.exists(file, LinkOption.NOFOLLOW_LINKS) && !Files.isRegularFile(file)) {
                try (OutputStream out = Files.newOutputStream(file)) {
                    content.writeTo(out);
                }
            } else {
                replace(Files.exists(file) ? file.toRealPath() : file, content);
            }
            return file;
        } catch (IOException e) {
            throw notWritten(file.toString(), e);
        }
    }

    /**
     * Returns the message of a failed file operation, with the kind of error where the message may be the file name
     * only.
     */
    public static String reason(IOException e) {
        return e instanceof NoSuchFileException
                ? "there is no file or folder " + e.getMessage()
                : kind(e) + e.getMessage();
    }

    private static String kind(IOException e) {
        if (e instanceof AccessDeniedException) {
            return "permission denied: ";
        }
        if (e instanceof NotDirectoryException) {
            return "not a folder: ";
        }
        if (e instanceof FileAlreadyExistsException) {
            return "there is a file already: ";
        }
        boolean hasReason = !(e instanceof FileSystemException error) || error.getReason() != null;
        return hasReason ? "" : e.getClass().getSimpleName() + ": ";
    }

    /** Returns an error that names what cannot be written, and why. */
    static IOException notWritten(String name, IOException e) {
        return new IOException(name + " cannot be written: " + kind(e) + e.getMessage(), e);
    }

    private static void replace(Path file, FileContent content) throws IOException {
        Path part = file.resolveSibling(
                file.getFileName() + "." + ProcessHandle.current().pid() + UNFINISHED);
        try {
            try (OutputStream out = Files.newOutputStream(part)) {
                content.writeTo(out);
            }
            if (Files.exists(file)) {
                Files.setPosixFilePermissions(part, Files.getPosixFilePermissions(file));
            }
            try (FileChannel written = FileChannel.open(part, StandardOpenOption.WRITE)) {
                written.force(true);
            }
            Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(part);
        }
    }
}
