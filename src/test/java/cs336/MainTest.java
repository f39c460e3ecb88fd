package cs336;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MainTest {
    @TempDir
    Path folder;

    private final StringWriter out = new StringWriter(), err = new StringWriter();

    private int run(String... arguments) {
        return Main.commandLine()
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err))
                .execute(arguments);
    }

    @Test
    void anUnknownCommandIsReportedWithTheKnownOnes() {
        assertEquals(2, run("infer"));
        String known = String.join(", ", Main.commandLine().getSubcommands().keySet());
        assertEquals("cs336: command 'infer' is unknown; known: " + known + "\n", err.toString());
    }

    @Test
    void anUnknownOptionIsReported() {
        assertEquals(2, run("benchmark", "--contxt", "8"));
        assertEquals("cs336: Unknown options: '--contxt', '8'\n", err.toString());
    }

    @Test
    void aCommandIsRequired() {
        assertEquals(2, run());
        assertEquals("cs336: a command is missing; see cs336 --help\n", err.toString());
    }

    @Test
    void aMissingNotebookIsReportedWithTheExistingOnes() {
        assertEquals(2, run("notebooks", "99-nothing"));
        assertTrue(
                err.toString().startsWith("cs336: notebook '99-nothing' is unknown; known: 01-benchmarking"),
                err.toString());
    }

    @Test
    void aFileThatIsNotANotebookIsReportedInOneLine() throws IOException {
        Path file = Files.writeString(folder.resolve("no.ipynb"), "not json");
        assertEquals(
                1,
                run(
                        "notebooks",
                        file.toString(),
                        "--output",
                        folder.resolve("out").toString()));
        assertEquals("cs336: " + file + " is not a notebook: it is not JSON\n", err.toString());
    }

    @Test
    void aMissingFileAndAFolderThatCannotBeCreatedAreReportedInOneLine() throws IOException {
        Path none = folder.resolve("none.json");
        assertEquals(1, run("isoflops", "--runs", none.toString()));
        assertEquals("cs336: there is no file or folder " + none + "\n", err.toString());
        err.getBuffer().setLength(0);
        Path file = Files.writeString(folder.resolve("file"), "");
        String trace = "data/measurements/h200-x4/ddp/naive-rank0.json.gz";
        assertEquals(1, run("overlap", trace, "--figure", file.toString()));
        assertEquals(1, err.toString().lines().count(), err.toString());
        assertTrue(err.toString().contains("Exception: " + file), err.toString());
    }

    @Test
    void nothingIsMeasuredIfMeasurementsCannotBeStored() throws IOException {
        Path file = Files.writeString(folder.resolve("file"), "where a folder should be");
        String tiny = "benchmark --d-model 16 --layers 1 --heads 2 --context 8 --device cpu --machine here --output ";
        PrintStream console = System.err;
        var progress = new ByteArrayOutputStream();
        System.setErr(new PrintStream(progress, true, StandardCharsets.UTF_8));
        try {
            assertEquals(1, run((tiny + file).split(" ")));
        } finally {
            System.setErr(console);
        }
        assertEquals(1, err.toString().lines().count(), err.toString());
        assertTrue(err.toString().contains("Exception: " + file), err.toString());
        assertFalse(progress.toString(StandardCharsets.UTF_8).contains("[1/"), "a case was measured");
    }
}
