package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(300)
class NvidiaSmiTest {
    @Test
    void standardOutputAndErrorAreReturned() throws IOException {
        assertEquals("a\nb\n", NvidiaSmi.output(List.of("sh", "-c", "echo a; echo b >&2"), Duration.ofSeconds(20)));
    }

    @Test
    void aProgramThatDoesNotEndFailsInTimeAndIsKilled(@TempDir Path folder) throws Exception {
        Path pid = folder.resolve("pid");
        List<String> endless = List.of("sh", "-c", "echo $$ > " + pid + "; exec sleep 600");
        var e = assertThrows(IOException.class, () -> NvidiaSmi.output(endless, Duration.ofSeconds(3)));
        assertEquals(String.join(" ", endless) + " did not end within 3 s", e.getMessage());
        var process = ProcessHandle.of(Long.parseLong(Files.readString(pid).strip()));
        if (process.isPresent()) {
            process.get().onExit().get(120, TimeUnit.SECONDS);
        }
        assertFalse(process.map(ProcessHandle::isAlive).orElse(false));
    }
}
