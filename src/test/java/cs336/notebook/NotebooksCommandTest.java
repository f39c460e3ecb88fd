package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import cs336.torch.Device;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
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
    void exitCodeIsOneForAFailingNotebook() throws IOException {
        String output = folder.resolve("out").toString();
        Path bad = new WrittenNotebook().code("1 / 0").save(folder, "bad");
        assertEquals(1, run(bad.toString(), "--output", output));
        assertTrue(progress.toString().contains("bad … failed"), progress.toString());
        assertEquals(
                "bad, cell [1], line 1: java.lang.ArithmeticException: / by zero",
                errors.toString().lines().findFirst().orElse(""));
    }

    @Test
    void exitCodeIsZeroForAGoodNotebookAndAPortableRunUsesOnlyTheImportsOfIJava() throws IOException {
        Path notebook = new WrittenNotebook().code("Stream.of(1).count()").save(folder, "streams");
        String output = folder.resolve("out").toString();
        assertEquals(0, run(notebook.toString(), "--output", output));
        assertTrue(Files.exists(folder.resolve("out/streams.html")));
        assertEquals(1, run(notebook.toString(), "--output", output, "--portable"));
    }

    @Test
    void cleanRemovesWhatJupyterAddsAndKeepsTheText() throws IOException {
        Path notebook = new WrittenNotebook()
                .markdown("# Täxt <b>")
                .codeWithOutput("int x = 1 < 2 ? 1 : 0;", "x")
                .codeWithCount(3, "2")
                .save(folder, "saved");
        List<String> sources = Notebook.read(notebook).cells().stream()
                .map(Notebook.Cell::source)
                .toList();
        assertEquals(0, run(notebook.toString(), "--clean"));
        assertEquals(List.of(), CleanNotebooks.problemsIn(folder));
        assertEquals(
                sources,
                Notebook.read(notebook).cells().stream()
                        .map(Notebook.Cell::source)
                        .toList());
        String once = Files.readString(notebook);
        assertTrue(once.startsWith("{\n \"cells\": [\n  {"), once);
        assertTrue(once.contains("\"name\": \"cs336\"") && once.contains("1 < 2"), once);
        assertEquals(0, run(notebook.toString(), "--clean"));
        assertEquals(once, Files.readString(notebook));
    }

    @Test
    void beginningOfANameNamesANotebook() throws IOException {
        assertEquals(2, run("01", "--output", "notebooks"));
        assertTrue(
                errors.toString().contains("--output must not be the folder of the notebook notebooks/01-"),
                errors.toString());
        assertEquals(2, run("0", "--clean"), "several notebooks begin so");
        assertTrue(
                errors.toString().contains("notebook '0' is ambiguous: 00-start-here, 01-benchmarking"),
                errors.toString());
        assertEquals(2, run("", "--clean"));
    }

    @Test
    void wrongUseIsExitCodeTwo() throws IOException {
        assertEquals(2, run("no-such-notebook"));
        assertTrue(errors.toString().contains("notebook 'no-such-notebook' is unknown"), errors.toString());
        assertEquals(2, run("--time-limit", "0"));
        assertTrue(
                errors.toString().contains("--time-limit must be from 1 to 604800 seconds, not 0"), errors.toString());
    }

    @Test
    void kernelsAreStoredOnAGpuOnly() {
        String measurements = folder.resolve("m").toString();
        assertEquals(2, run("--clean", "--store-kernels", measurements));
        assertTrue(errors.toString().contains("--clean has no effect with --store-kernels"), errors.toString());
        assertEquals(2, run("--clean", "--jobs", "2"));
        assertTrue(errors.toString().contains("--jobs has no effect with --clean"), errors.toString());
        assumeFalse(Device.best().isCuda());
        assertEquals(2, run("--store-kernels", measurements));
        assertTrue(errors.toString().contains("--store-kernels needs a GPU"), errors.toString());
        assertFalse(Files.exists(Path.of(measurements)));
    }

    @Test
    void optionsOutOfRangeAreExitCodeTwo() {
        for (String limit : List.of("0", "-1", "604801", "9223372036854775807")) {
            assertEquals(2, run("--time-limit", limit));
            assertTrue(errors.toString().contains("--time-limit must be from 1 to 604800 seconds, not " + limit));
        }
        assertEquals(2, run("--jobs", "0"));
        assertTrue(errors.toString().contains("--jobs must be at least 1, not 0"), errors.toString());
    }

    @Test
    void outputThatWouldReplaceANotebookIsRefused() throws IOException {
        Path notebook = new WrittenNotebook().code("1").save(folder, "mine");
        String before = Files.readString(notebook);
        assertEquals(2, run(notebook.toString(), "--output", folder.toString()));
        assertTrue(
                errors.toString().contains("--output must not be the folder of the notebook " + notebook),
                errors.toString());
        assertEquals(before, Files.readString(notebook));
        assertEquals(2, run(notebook.toString(), "--output", notebook.toString()));
        assertTrue(errors.toString().contains("--output must be a folder, not '" + notebook), errors.toString());
        assertEquals(2, run(notebook.toString(), "--output", ""));
        assertTrue(errors.toString().contains("--output must be a folder, not ''"), errors.toString());
    }

    @Test
    void notebooksWithTheSameNameAreRefused() throws IOException {
        Path one = new WrittenNotebook().code("1").save(Files.createDirectory(folder.resolve("a")), "same");
        Path two = new WrittenNotebook().code("1").save(Files.createDirectory(folder.resolve("b")), "same");
        assertEquals(2, run(one.toString(), two.toString(), "--output", folder.toString()));
        assertTrue(
                errors.toString().contains("notebooks must have different names, not " + one + " and " + two),
                errors.toString());
    }
}
