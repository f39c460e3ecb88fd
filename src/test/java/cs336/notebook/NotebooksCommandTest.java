package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class NotebooksCommandTest {
    @TempDir
    private Path folder;

    private final StringWriter progress = new StringWriter();
    private final StringWriter errors = new StringWriter();

    private int run(String... arguments) {
        return new CommandLine(new NotebooksCommand())
                .setOut(new PrintWriter(progress))
                .setErr(new PrintWriter(errors))
                .execute(arguments);
    }

    @Test
    void exitCodeIsOneForAFailingNotebookAndZeroForAGoodOne() throws IOException {
        String output = folder.resolve("out").toString();
        Path good = new WrittenNotebook().code("1 + 1").save(folder, "good");
        Path bad = new WrittenNotebook().code("1 / 0").save(folder, "bad");
        assertEquals(0, run(good.toString(), "--output", output));
        assertTrue(Files.exists(folder.resolve("out/good.html")));
        assertEquals(1, run(bad.toString(), "--output", output));
        assertTrue(progress.toString().contains("bad … failed"), progress.toString());
        assertEquals(
                "bad, cell [1], line 1: java.lang.ArithmeticException: / by zero",
                errors.toString().lines().findFirst().orElse(""));
    }

    @Test
    void portableRunUsesOnlyTheImportsOfIJava() throws IOException {
        Path notebook = new WrittenNotebook().code("Stream.of(1).count()").save(folder, "streams");
        String output = folder.resolve("out").toString();
        assertEquals(0, run(notebook.toString(), "--output", output));
        assertEquals(1, run(notebook.toString(), "--output", output, "--portable"));
    }

    @Test
    void wrongUseIsExitCodeTwo() throws IOException {
        assertEquals(2, run("no-such-notebook"));
        assertTrue(errors.toString().contains("notebook 'no-such-notebook' is unknown"), errors.toString());
        assertEquals(2, run("--time-limit", "0"));
        assertTrue(
                errors.toString().contains("--time-limit must be from 1 to 604800 seconds, not 0"), errors.toString());
    }
}
