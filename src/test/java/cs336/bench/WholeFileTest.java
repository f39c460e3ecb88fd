package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class WholeFileTest {
    @TempDir
    Path folder;

    private List<Path> files() throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.sorted().toList();
        }
    }

    @Test
    void theReasonOfAFailureIsInWords() {
        assertEquals("there is no file or folder a", WholeFile.reason(new NoSuchFileException("a")));
        assertEquals("permission denied: a", WholeFile.reason(new AccessDeniedException("a")));
        assertEquals("not a folder: a", WholeFile.reason(new NotDirectoryException("a")));
        assertEquals("there is a file already: a", WholeFile.reason(new FileAlreadyExistsException("a")));
        assertEquals("a: No space left", WholeFile.reason(new FileSystemException("a", null, "No space left")));
        assertEquals("DirectoryNotEmptyException: a", WholeFile.reason(new DirectoryNotEmptyException("a")));
        assertEquals("Broken pipe", WholeFile.reason(new IOException("Broken pipe")));
    }

    @Test
    void aFailedWriteKeepsTheOldFileAndNamesIt() throws IOException {
        Path file = Files.writeString(folder.resolve("a"), "old");
        var error = assertThrows(
                IOException.class,
                () -> WholeFile.write(file, out -> {
                    out.write('n');
                    throw new IOException("No space left on device");
                }));
        assertEquals(file + " cannot be written: No space left on device", error.getMessage());
        assertEquals("old", Files.readString(file));
        assertEquals(List.of(file), files());
    }

    @Test
    void aFileIsReplacedWithItsPermissions() throws IOException {
        Path file = Files.writeString(folder.resolve("a"), "a long old text");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
        assertEquals(file, WholeFile.write(file, "new ü"));
        assertEquals("new ü", Files.readString(file));
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
        assertEquals(List.of(file), files());
    }

    @Test
    void theTargetOfALinkIsReplaced() throws IOException {
        Path file = Files.writeString(folder.resolve("a"), "old");
        Path link = Files.createSymbolicLink(folder.resolve("b"), Path.of("a"));
        WholeFile.write(link, "new");
        assertEquals("new", Files.readString(file));
        assertTrue(Files.isSymbolicLink(link));
        Files.delete(file);
        WholeFile.write(link, "again");
        assertEquals("again", Files.readString(file));
        Files.delete(file);
        Files.createSymbolicLink(file, Path.of("b"));
        assertThrows(IOException.class, () -> WholeFile.write(link, "text"), "a link to itself");
        assertTrue(Files.isSymbolicLink(link));
    }

    @Test
    void aDeviceIsWrittenDirectly() throws IOException {
        WholeFile.write(Path.of("/dev/null"), "text");
        assertTrue(Files.exists(Path.of("/dev/null")) && !Files.isRegularFile(Path.of("/dev/null")));
        var error = assertThrows(IOException.class, () -> WholeFile.write(Path.of("/dev/full"), "text"));
        assertEquals("/dev/full cannot be written: No space left on device", error.getMessage());
    }

    @Test
    void aDeviceIsNotRead() {
        var error = assertThrows(IOException.class, () -> WholeFile.read(Path.of("/dev/zero")));
        assertEquals("/dev/zero is a device, not a file", error.getMessage());
    }

    @Test
    void aFolderThatDoesNotExistIsAnErrorWithTheName() {
        Path file = folder.resolve("none/a");
        var error = assertThrows(IOException.class, () -> WholeFile.write(file, "text"));
        assertTrue(error.getMessage().startsWith(file + " cannot be written: NoSuchFileException: "), error.toString());
    }
}
