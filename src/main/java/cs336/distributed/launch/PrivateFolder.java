package cs336.distributed.launch;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** A temporary folder that only this user can read. It is deleted when it is closed or this JVM exits. */
final class PrivateFolder implements AutoCloseable {
    private final Path path;
    private final Thread deletion = new Thread(this::delete);

    PrivateFolder() throws IOException {
        path = Files.createTempDirectory("cs336-run-"); // with mode 0700
        Runtime.getRuntime().addShutdownHook(deletion);
    }

    /** Returns the path of a file in this folder. */
    Path file(String name) {
        return path.resolve(name);
    }

    private void delete() {
        try (Stream<Path> files = Files.list(path)) {
            for (Path file : files.toList()) {
                Files.deleteIfExists(file);
            }
            Files.deleteIfExists(path);
        } catch (IOException | UncheckedIOException e) {
            // A rank that is still ending may have created a file again; the folder is left to the system.
        }
    }

    @Override
    public void close() {
        delete();
        try {
            Runtime.getRuntime().removeShutdownHook(deletion);
        } catch (IllegalStateException e) {
            // This JVM is shutting down.
        }
    }
}
