package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.TestJvm;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
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

    /** Writes an error file into a folder and prints the result. */
    static final class Writer {
        public static void main(String[] arguments) {
            System.out.print(FailureReport.write(Path.of(arguments[0]), "failure", List.of()));
        }
    }

    @Test
    void anErrorFileThatCannotBeCompletedIsDeleted() throws Exception {
        ProcessBuilder writer = TestJvm.of(Writer.class, folder.toString());
        // The limit acts like a full disk. The JVM stores its own performance data in a file.
        writer.command().add(1, "-XX:-UsePerfData");
        writer.command().addAll(0, List.of("sh", "-c", "ulimit -f 0 && exec \"$@\"", "sh"));
        Process process = writer.redirectError(Redirect.INHERIT).start();
        String result = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor());
        assertEquals("null", result);
        assertEquals(Set.of(), files());
    }
}
