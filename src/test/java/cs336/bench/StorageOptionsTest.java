package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

class StorageOptionsTest {
    @Command
    private static final class StoringCommand {
        @Mixin
        private final StorageOptions storage = new StorageOptions("problem");
    }

    private static StorageOptions parse(String... arguments) {
        var command = new StoringCommand();
        new CommandLine(command).parseArgs(arguments);
        return command.storage;
    }

    @Test
    void changedFilesAreRejectedOnAGpuUnlessAllowed() {
        var e = assertThrows(IllegalArgumentException.class, () -> parse().requireClean(true, "1234567890+dirty"));
        assertEquals(
                "files differ from the commit (1234567890+dirty), so measurements on a GPU could not be repeated:"
                        + " commit the changes or give --allow-dirty",
                e.getMessage());
        assertDoesNotThrow(() -> parse().requireClean(true, "1234567890"));
        assertDoesNotThrow(() -> parse().requireClean(false, "1234567890+dirty"));
        assertDoesNotThrow(() -> parse("--allow-dirty").requireClean(true, "1234567890+dirty"));
    }
}
