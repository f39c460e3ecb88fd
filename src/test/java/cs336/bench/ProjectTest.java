package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ProjectTest {
    @TempDir
    Path folder;

    @Test
    void theRootIsFoundFromEveryFolderInside() throws IOException {
        Path notebooks = Files.createDirectories(folder.resolve("notebooks"));
        Path deep = Files.createDirectories(folder.resolve("data/measurements/h200"));
        assertEquals(folder, Project.root(folder));
        assertEquals(folder, Project.root(notebooks));
        assertEquals(folder, Project.root(deep));
    }

    @Test
    void outsideTheProjectTheErrorNamesTheFolder() {
        var error = assertThrows(UncheckedIOException.class, () -> Project.root(folder));
        assertEquals(true, error.getMessage().contains(folder.toString()));
    }
}
