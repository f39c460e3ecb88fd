package cs336.charts;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.UUID;

/**
 * A file that is replaced at once: a process that reads it, or that remains after another was killed, finds the old
 * content or the new one.
 */
final class ReplacedFile {
    private ReplacedFile() {}

    /**
     * Writes a file through a temporary file in its folder and returns it. The target of a symbolic link is replaced.
     */
    static Path write(Path file, byte[] content) throws IOException {
        Path target = Files.exists(file) ? file.toRealPath() : file;
        Path part = target.resolveSibling(target.getFileName() + "." + UUID.randomUUID() + ".part");
        try {
            Files.write(part, content);
            Files.move(part, target, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Files.deleteIfExists(part);
        }
        return file;
    }
}
