package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.TestJvm;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KernelTrialRunTest {
    private static final int LIMIT_S = 60;

    @TempDir
    private Path folder;

    @Test
    void executesOneCellAndEnds() throws IOException, InterruptedException {
        Path classes = folder.resolve("classes.txt");
        ProcessBuilder trial = TestJvm.of(KernelTrialRun.class).inheritIO();
        trial.command().add(1, "-Xlog:class+load:file=" + classes);
        Process process = trial.start();
        try {
            assertTrue(process.waitFor(LIMIT_S, TimeUnit.SECONDS), "the kernel does not end");
        } finally {
            process.destroyForcibly();
        }
        assertEquals(0, process.exitValue());
        String loaded = Files.readString(classes);
        assertTrue(loaded.contains(" REPL.$JShell$"), "no cell was executed");
        assertTrue(loaded.contains("jupyter.messages.reply.ExecuteReply"), "no client was connected");
    }
}
