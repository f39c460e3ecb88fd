package cs336.bench;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/**
 * A writer of files that appear when they are complete and on disk. If the disk is full or the process is killed, a
 * file that existed before is unchanged.
 */
public final class AtomicFile {
    private static final String UNFINISHED = ".part";

    private AtomicFile() {}

    /** The content of a file. */
    @FunctionalInterface
    public interface FileContent {
        /** Writes the content; may close the stream. */
        void writeTo(OutputStream out) throws IOException;
    }

    /** Writes a text in UTF-8 and returns the file. */
    public static Path write(Path file, String text) throws IOException {
        return write(file, out -> out.write(text.getBytes(StandardCharsets.UTF_8)));
    }

    /**
     * Writes a file and returns it. An existing file keeps its permissions. A link stays one, and its target is
     * replaced. Devices, pipes and targets of links that do not exist yet are written directly.
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
            String kind = e instanceof FileSystemException ? e.getClass().getSimpleName() + ": " : "";
            throw new IOException(file + " cannot be written: " + kind + e.getMessage(), e);
        }
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
