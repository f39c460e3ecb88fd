package cs336.bench;

import java.io.FileNotFoundException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;

/**
 * The root folder of this project. It is found from any working folder in the project, because Jupyter starts notebooks
 * in {@code notebooks/} and the command line starts in the root.
 */
public final class Project {
    private Project() {}

    /**
     * Returns a file or folder of the project.
     *
     * @param fromRoot path relative to the root, as in {@code data/measurements}
     * @throws UncheckedIOException if the working folder is not inside the project
     */
    public static Path path(String fromRoot) {
        Objects.requireNonNull(fromRoot, "fromRoot must not be null");
        return root(Path.of("").toAbsolutePath()).resolve(fromRoot);
    }

    static Path root(Path start) {
        for (Path folder = start; folder != null; folder = folder.getParent()) {
            if (Files.isDirectory(folder.resolve("notebooks")) && Files.isDirectory(folder.resolve("data"))) {
                return folder;
            }
        }
        throw new UncheckedIOException(new FileNotFoundException(
                "no project folder found: neither " + start + " nor one of its parents contains notebooks/ and data/"));
    }
}
