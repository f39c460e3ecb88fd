package cs336.bench;

import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The folder of this project, wherever a program was started inside it: Jupyter starts notebooks in {@code notebooks/},
 * the command line in the root.
 */
public final class Project {
    private Project() {}

    /**
     * A file or folder of the project, by its path from the root, as in {@code data/measurements}.
     *
     * @throws IllegalStateException if the working folder is not inside the project
     */
    public static Path path(String fromRoot) {
        return root(Path.of("").toAbsolutePath()).resolve(fromRoot);
    }

    static Path root(Path start) {
        for (Path folder = start; folder != null; folder = folder.getParent()) {
            if (Files.isDirectory(folder.resolve("notebooks")) && Files.isDirectory(folder.resolve("data"))) {
                return folder;
            }
        }
        throw new IllegalStateException(
                "the project was not found: neither " + start + " nor a folder above it has notebooks/ and data/");
    }
}
