package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FailureReportTest {
    @TempDir
    Path folder;

    private Set<Path> files() throws IOException {
        try (var all = Files.list(folder)) {
            return all.collect(Collectors.toCollection(TreeSet::new));
        }
    }

    @Test
    void onlyTheOldestErrorFilesAreDeleted() throws IOException {
        Path other = Files.writeString(folder.resolve("cs336-notes.txt"), "an older file of another kind");
        Files.setLastModifiedTime(other, FileTime.fromMillis(0));
        var expected = new TreeSet<Path>(Set.of(other));
        for (int i = 0; i < FailureReport.MOST_FILES + 3; i++) {
            Path file = FailureReport.write(folder, "failure " + i, List.of());
            assertTrue(Files.readString(file).endsWith(" failure " + i + "\n"));
            if (i < FailureReport.MOST_FILES) {
                Files.setLastModifiedTime(file, FileTime.fromMillis(1_000L * (i + 1)));
            }
            if (i >= 3) {
                expected.add(file);
            }
        }
        assertEquals(expected, files());
    }

    @Test
    void theFolderIsCreatedAndAFileThatCannotBeWrittenIsNull() throws IOException {
        Path created = FailureReport.write(folder.resolve("a/b"), "failure", List.of());
        assertEquals(folder.resolve("a/b"), created.getParent());
        assertNull(FailureReport.write(created, "failure", List.of()), "the folder is a file");
    }
}
