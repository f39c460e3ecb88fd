package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

/** Cells that end, block or fill the process of their notebook. The executed copy is complete up to such a cell. */
class MisbehavingCellTest {
    @TempDir
    private Path folder;

    private void run(int jobs, Duration timeLimit, Path... notebooks) throws Exception {
        runner(jobs, timeLimit).run(List.of(notebooks));
    }

    private NotebookRunner runner(int jobs, Duration timeLimit) {
        return new NotebookRunner(
                Imports.GENEROUS, timeLimit, jobs, folder.resolve("out"), new PrintWriter(new StringWriter()));
    }

    private List<JsonObject> executed(String name) throws Exception {
        JsonObject json = JsonParser.parseString(
                        Files.readString(folder.resolve("out").resolve(name + ".ipynb")))
                .getAsJsonObject();
        List<JsonObject> cells = new ArrayList<>();
        json.getAsJsonArray("cells").forEach(cell -> cells.add(cell.getAsJsonObject()));
        assertTrue(Files.exists(folder.resolve("out").resolve(name + ".html")));
        return cells;
    }

    private static String outputs(JsonObject cell) {
        return cell.getAsJsonArray("outputs").toString();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "Runtime.getRuntime().halt(3);|the process ended with exit code 3",
                "new com.sun.jna.Pointer(16).getInt(0);|the process crashed with SIGSEGV",
                "new ProcessBuilder(\"sh\", \"-c\", \"kill -9 $PPID\").start().waitFor(); Thread.sleep(60_000);"
                        + "|the process was ended by signal 9"
            })
    void cellThatEndsTheProcessIsNamed(String cell, String reason) throws Exception {
        Path notebook = new WrittenNotebook()
                .code("System.out.println(\"before\");")
                .code(cell)
                .code("\"after\"")
                .save(folder, "ends");
        NotebookFailure failure = assertThrows(NotebookFailure.class, () -> run(1, Duration.ofSeconds(60), notebook));
        assertEquals("ends, cell [2]: " + reason, failure.getMessage());
        for (String line : failure.report()) {
            if (line.matches("# \\S+\\.log")) {
                Files.delete(Path.of(line.substring(2))); // the JVM's report of a crash
            }
        }
        assertEndedInSecondCell("ends", reason);
    }

    private void assertEndedInSecondCell(String name, String reason) throws Exception {
        List<JsonObject> cells = executed(name);
        assertTrue(outputs(cells.get(0)).contains("before"));
        assertEquals(2, cells.get(1).get("execution_count").getAsInt());
        assertTrue(outputs(cells.get(1)).contains(reason), outputs(cells.get(1)));
        assertTrue(cells.get(2).get("execution_count").isJsonNull());
    }

    @Test
    void exitOfACellIsAFailureOfTheCommand() throws Exception {
        Path notebook = new WrittenNotebook()
                .code("System.out.println(\"before\");")
                .code("System.out.print(\"unfinished line\"); Runtime.getRuntime().exit(0);")
                .code("\"after\"")
                .save(folder, "exit");
        var errors = new StringWriter();
        int code = new CommandLine(new NotebooksCommand())
                .setOut(new PrintWriter(new StringWriter()))
                .setErr(new PrintWriter(errors))
                .execute(notebook.toString(), "--output", folder.resolve("out").toString());
        assertEquals(1, code);
        assertEquals("exit, cell [2]: the process ended with exit code 0\n", errors.toString());
        assertEndedInSecondCell("exit", "the process ended with exit code 0");
        // A shutdown hook sends what was printed immediately before the exit.
        assertTrue(outputs(executed("exit").get(1)).contains("unfinished line"));
    }

    /**
     * A stop can arrive between two instructions of a loop that its {@code try} does not cover. Each of the four stops
     * then ends at most one of the nested loops.
     */
    @Test
    void cellThatCatchesEverythingIsEndedAndNamed() throws Exception {
        Path started = folder.resolve("started");
        Path stubborn = new WrittenNotebook()
                .code(
                        "System.out.println(\"printed\");",
                        "Object lock = new Object();",
                        "void block() throws Exception {",
                        "    Files.writeString(Path.of(\"" + started + "\"), \"\");",
                        "    synchronized (lock) { lock.wait(); }",
                        "}",
                        "void resist(int loops) {",
                        "    while (true) { try { if (loops == 0) block(); else resist(loops - 1); } catch (Throwable t) { } }",
                        "}",
                        "resist(6);")
                .save(folder, "stubborn");
        Path next = new WrittenNotebook().code("\"next\"").save(folder, "next");
        NotebookFailure failure;
        int seconds = 1;
        do { // on a busy machine, compiling the cell can take longer than a limit
            seconds *= 2;
            NotebookRunner runner = runner(1, Duration.ofSeconds(seconds)).keepGoing(true);
            failure = assertThrows(NotebookFailure.class, () -> runner.run(List.of(stubborn, next)));
        } while (!Files.exists(started) && seconds < 100);
        assertEquals(
                "stubborn, cell [1]: took longer than " + seconds + " s and could not be interrupted",
                failure.getMessage());
        assertEquals(0, failure.getSuppressed().length, "the end of the process is no other failure");
        assertTrue(outputs(executed("stubborn").get(0)).contains("printed"));
        assertTrue(outputs(executed("next").get(0)).contains("next"));
    }

    @Test
    void valueThatCannotBeShownIsEndedAndNamedAndTheRunCanGoOn() throws Exception {
        Path endless = new WrittenNotebook()
                .code(
                        "new Object() {",
                        "    @Override",
                        "    public String toString() {",
                        "        while (true) { }",
                        "    }",
                        "}")
                .code("\"after\"")
                .save(folder, "endless");
        NotebookFailure failure;
        int seconds = 1;
        do { // on a busy machine, compiling a cell can take longer than a limit
            seconds *= 2;
            NotebookRunner runner = runner(1, Duration.ofSeconds(seconds)).keepGoing(true);
            failure = assertThrows(NotebookFailure.class, () -> runner.run(List.of(endless)));
        } while (!outputs(executed("endless").get(1)).contains("after") && seconds < 100);
        assertEquals(
                "endless, cell [1]: took longer than " + seconds + " s",
                failure.getMessage().replace(", line 1", ""));
        assertTrue(outputs(executed("endless").get(1)).contains("after"));
    }

    @Test
    void replacedStreamsAreRestoredAndLongOutputIsCutForTheNextCell() throws Exception {
        Path notebook = new WrittenNotebook()
                .code("System.setOut(null);", "System.setErr(null);", "System.setIn(null);")
                .code("System.out.close();", "System.err.close();")
                .code("System.out.print(\"still here\");")
                .code(
                        "String line = \"x\".repeat(1023) + \"\\n\";",
                        "for (int i = 0; i < 1 << 15; i++) System.out.print(line);")
                .code("\"the next cell\"")
                .code("throw new IllegalStateException(\"z\".repeat(1 << 22));")
                .save(folder, "long");
        NotebookFailure failure = assertThrows(NotebookFailure.class, () -> run(1, Duration.ofSeconds(60), notebook));
        assertTrue(failure.getMessage().startsWith("long, cell [6], line 1: java.lang.IllegalStateException: zzz"));
        assertTrue(
                failure.getMessage().length() < 3000,
                "length " + failure.getMessage().length());
        List<JsonObject> cells = executed("long");
        assertTrue(outputs(cells.get(2)).contains("still here"));
        JsonArray printed = cells.get(3).getAsJsonArray("outputs");
        assertEquals(2, printed.size());
        assertEquals(
                LimitedOutputs.MOST_PRINTED,
                printed.get(0).getAsJsonObject().get("text").getAsString().length());
        assertTrue(
                printed.get(1).toString().contains("a cell may print 1,048,576 characters"),
                printed.get(1).toString());
        assertTrue(outputs(cells.get(4)).contains("the next cell"));
        assertTrue(outputs(cells.get(5)).length() < 10_000);
    }

    @Test
    void displaysOfACellAreLimitedInSizeAndNumber() {
        List<NotebookEvent> events = new ArrayList<>();
        var outputs = new LimitedOutputs(events::add);
        outputs.begin(0);
        for (int i = 0; i < 100; i++) {
            outputs.display(new DisplayData("y".repeat(1 << 20)));
        }
        // 31 fit into 32 MiB with their JSON; then comes the notice.
        assertEquals(1 + 31 + 1, events.size());
        assertTrue(events.get(32).output().toString().contains("a cell may display 33,554,432 bytes"));
        events.clear();
        outputs.begin(1);
        for (int i = 0; i < 100_000; i++) {
            outputs.updateDisplay("id", new DisplayData("tiny"));
        }
        assertEquals(1 + LimitedOutputs.MOST_DISPLAYED / 512 + 1, events.size() + 1);
    }

    @Test
    void failuresOfNotebooksThatRunAtTheSameTimeAreAllReported() throws Exception {
        String meet = "while (!Files.exists(Path.of(\"%s\"))) Thread.sleep(10);";
        Path one = new WrittenNotebook()
                .code(
                        "Files.createFile(Path.of(\"" + folder.resolve("1") + "\"));",
                        meet.formatted(folder.resolve("2")))
                .code("Runtime.getRuntime().exit(1);")
                .save(folder, "one");
        Path two = new WrittenNotebook()
                .code(
                        "Files.createFile(Path.of(\"" + folder.resolve("2") + "\"));",
                        meet.formatted(folder.resolve("1")))
                .code("1 / 0")
                .save(folder, "two");
        Path three = new WrittenNotebook().code("1").save(folder, "three");
        NotebookFailure failure =
                assertThrows(NotebookFailure.class, () -> run(2, Duration.ofSeconds(60), one, two, three));
        assertEquals("one, cell [2]: the process ended with exit code 1", failure.getMessage());
        assertEquals(
                "two, cell [2], line 1: java.lang.ArithmeticException: / by zero",
                assertInstanceOf(NotebookFailure.class, failure.getSuppressed()[0])
                        .getMessage());
        assertFalse(Files.exists(folder.resolve("out/three.ipynb")));
    }
}
