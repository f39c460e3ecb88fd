package cs336.bench;

import java.io.FileNotFoundException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Stream;

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

    /** Returns whether the working folder is inside the project. */
    public static boolean isHere() {
        return find(Path.of("").toAbsolutePath()).isPresent();
    }

    static Path root(Path start) {
        return find(start)
                .orElseThrow(
                        () -> new UncheckedIOException(new FileNotFoundException("no project folder found: neither "
                                + start + " nor one of its parents contains notebooks/ and data/")));
    }

    private static Optional<Path> find(Path start) {
        return Stream.iterate(start, Objects::nonNull, Path::getParent)
                .filter(folder ->
                        Files.isDirectory(folder.resolve("notebooks")) && Files.isDirectory(folder.resolve("data")))
                .findFirst();
    }
}
