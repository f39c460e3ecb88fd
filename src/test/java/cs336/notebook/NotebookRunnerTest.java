package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import cs336.kernels.runtime.KernelCell;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NotebookRunnerTest {
    /** The time limit of cells that exceed it, in which a busy machine compiles a cell. */
    private static final Duration LIMIT = Duration.ofSeconds(6);

    /** The notebooks of {@link #runSharedNotebooks} and what came out of them. */
    @TempDir
    private static Path shared;

    private static final StringWriter SHARED_PROGRESS = new StringWriter();
    private static String unchanged;
    private static NotebookFailure failureOfSecond;
    private static NotebookFailure firstError;

    @TempDir
    private Path folder;

    private final StringWriter progress = new StringWriter();

    /**
     * Runs one notebook whose cells succeed and a second one with an error of the compiler, and then one with an
     * exception and a next one. Several tests look at the results, because each notebook takes the start of a process.
     */
    @BeforeAll
    static void runSharedNotebooks() throws Exception {
        Path fine = new WrittenNotebook()
                .markdown("# Title of *mine*", "", "| a | b |", "|---|---|", "| 1 | 2 |", "", "Area $\\pi r^2$")
                .code("int n = 20;", "System.out.println(\"n < \" + n);")
                .code("")
                .code("System.err.print(\"careful\");", "n * 2 + 2")
                .code("torch.print(torch.zeros(2, 3));")
                .code("1 + 1")
                .code("// a < b", "\"3 < 4\"")
                .code("System.out.print(\"10 %\\r100 %\\n\");")
                .code("display(\"<b>bold</b>\", \"text/html\");")
                .code("new java.awt.image.BufferedImage(3, 2, 1)")
                .code("String id = display(\"first\");", "display(\"other\");")
                .code("updateDisplay(id, \"second\");")
                .code("render(\"*x*\", \"text/markdown\")")
                .code("getKernelInstance().getRenderer() != null")
                .codeThatMayFail("int parsed = Integer.parseInt(\"x\");")
                .code("\"went on\"")
                .save(shared, "fine");
        Path second = new WrittenNotebook().code("int a = 1;", "int b = n;").save(shared, "second");
        unchanged = Files.readString(fine);
        failureOfSecond = assertThrows(
                NotebookFailure.class, () -> run(shared, SHARED_PROGRESS, Duration.ofSeconds(60), fine, second));
        assertEquals(unchanged, Files.readString(fine));
        Path bad = new WrittenNotebook()
                .markdown("# Text")
                .code("int n = 0;")
                .code("int ok = 1;", "int never = ok / n;")
                .codeWithOutput("ok")
                .save(shared, "bad");
        Path next = new WrittenNotebook().code("1").save(shared, "next");
        firstError = assertThrows(
                NotebookFailure.class, () -> run(shared, new StringWriter(), Duration.ofSeconds(60), bad, next));
    }

    private static void run(Path folder, StringWriter progress, Duration timeLimit, Path... notebooks)
            throws Exception {
        new NotebookRunner(Imports.GENEROUS, timeLimit, 1, folder.resolve("out"), new PrintWriter(progress))
                .run(List.of(notebooks));
    }

    private void run(Path... notebooks) throws Exception {
        run(folder, progress, Duration.ofSeconds(60), notebooks);
    }

    private NotebookFailure fails(Duration timeLimit, Path... notebooks) {
        return assertThrows(NotebookFailure.class, () -> run(folder, progress, timeLimit, notebooks));
    }

    @Test
    void onRequestTheCellsAndNotebooksAfterAFailureRunToo() throws Exception {
        Path bad = new WrittenNotebook()
                .code("1 / 0")
                .code("\"checked\"")
                .codeThatMayFail("2 / 0")
                .code("int n = ;")
                .save(folder, "bad");
        Path ends = new WrittenNotebook()
                .code("3 / 0")
                .code("Runtime.getRuntime().halt(7);")
                .save(folder, "ends");
        Path next = new WrittenNotebook().code("\"next\"").save(folder, "next");
        var runner = new NotebookRunner(
                Imports.GENEROUS, Duration.ofSeconds(60), 1, folder.resolve("out"), new PrintWriter(progress));
        var failure =
                assertThrows(NotebookFailure.class, () -> runner.keepGoing(true).run(List.of(bad, ends, next)));
        assertTrue(failure.getMessage().startsWith("bad, cell [1], line 1: "), failure.getMessage());
        assertEquals(2, failure.getSuppressed().length);
        assertTrue(failure.report().size() > 1, failure.report().toString());
        assertTrue(
                failure.getSuppressed()[0].getMessage().startsWith("bad, cell [4], line 1: "),
                "not cell 3, which may fail");
        assertTrue(executed(folder, "bad").get(1).toString().contains("checked"));
        Throwable ofEnds = failure.getSuppressed()[1];
        assertTrue(ofEnds.getMessage().startsWith("ends, cell [1], line 1: "), ofEnds.getMessage());
        assertTrue(ofEnds.getSuppressed()[0].getMessage().contains("exit code 7"), "the cell that ended the process");
        assertTrue(executed(folder, "next").get(0).toString().contains("next"));
    }

    /** Returns the code cells of the executed copy. */
    private static List<JsonObject> executed(Path folder, String name) throws IOException {
        JsonObject json = JsonParser.parseString(
                        Files.readString(folder.resolve("out").resolve(name + ".ipynb")))
                .getAsJsonObject();
        assertEquals(4, json.get("nbformat").getAsInt());
        assertEquals(5, json.get("nbformat_minor").getAsInt());
        List<JsonObject> code = new ArrayList<>();
        json.getAsJsonArray("cells").forEach(cell -> {
            assertTrue(cell.getAsJsonObject().has("id"));
            if (cell.getAsJsonObject().get("cell_type").getAsString().equals("code")) {
                code.add(cell.getAsJsonObject());
            }
        });
        return code;
    }

    /** Returns a code cell of the executed copy of the shared notebook. */
    private static JsonObject fine(int cell) throws IOException {
        return executed(shared, "fine").get(cell);
    }

    private static String page(String name) throws IOException {
        return Files.readString(shared.resolve("out").resolve(name + ".html"));
    }

    private static String outputs(JsonObject cell) {
        return cell.getAsJsonArray("outputs").toString();
    }

    @Test
    void storingKernelsRunsOnlyTheirCellsAndThoseTheyNeed() throws Exception {
        Path withKernels = new WrittenNotebook()
                .tagged(Exercises.TAG, "int n = 3;")
                .code("n = 1 / 0;")
                .tagged(NotebookRunner.KERNEL_TAG, "n + \" \" + System.getenv(\"" + KernelCell.STORE + "\")")
                .save(folder, "kernels");
        Path without = new WrittenNotebook().tagged(Exercises.TAG, "1 / 0").save(folder, "none");
        new NotebookRunner(
                        Imports.GENEROUS, Duration.ofSeconds(60), 1, folder.resolve("out"), new PrintWriter(progress))
                .storingKernels(folder.resolve("m"))
                .run(List.of(withKernels, without));
        List<JsonObject> cells = executed(folder, "kernels");
        assertEquals(2, cells.size());
        assertTrue(outputs(cells.get(1)).contains("3 " + folder.resolve("m").toAbsolutePath()), outputs(cells.get(1)));
        assertFalse(Files.exists(folder.resolve("out/none.ipynb")));
    }

    @Test
    void printsOfNativeCodeAreOutputsOfTheirCell() throws Exception {
        assertTrue(outputs(fine(3)).contains("CPUFloatType{2,3}"), outputs(fine(3)));
        assertFalse(outputs(fine(4)).contains("CPUFloatType"), outputs(fine(4)));
    }

    @Test
    void executedCopyHasOutputsAndCounts() throws Exception {
        List<JsonObject> cells = executed(shared, "fine");
        assertEquals(1, cells.get(0).get("execution_count").getAsInt());
        assertEquals(
                "[{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"n < 20\\n\"}]",
                outputs(cells.get(0)).replace("\\u003c", "<"));
        assertTrue(cells.get(1).get("execution_count").isJsonNull());
        assertEquals(2, cells.get(2).get("execution_count").getAsInt());
        assertEquals(
                "[{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"careful\"},"
                        + "{\"output_type\":\"execute_result\",\"execution_count\":2,"
                        + "\"data\":{\"text/plain\":\"42\"},\"metadata\":{}}]",
                outputs(cells.get(2)));
        assertEquals(unchanged, Files.readString(shared.resolve("fine.ipynb")));
        String progress = SHARED_PROGRESS.toString();
        assertTrue(progress.matches("fine … 14 cells, \\d+\\.\\d s\\Rsecond … failed\\R"), progress);
    }

    @Test
    void pageIsSelfContainedAndShowsTextCodeAndOutputs() throws Exception {
        String html = page("fine");
        assertTrue(html.contains("<title>Title of *mine*</title>"), html);
        assertTrue(html.contains(">Title of <em>mine</em></h1>"), html);
        assertTrue(html.contains("class=\"formula\""), html);
        assertTrue(html.contains("<td>2</td>"), html);
        assertTrue(html.contains("<span class=\"comment\">// a &lt; b</span>"), html);
        assertTrue(html.contains("<pre>3 &lt; 4</pre>"), html);
        assertTrue(html.contains(">100 %\n<") && !html.contains("10 %\r"), html);
        assertTrue(html.contains("<b>bold</b>"), html);
        assertTrue(html.contains("src=\"data:image/png;base64,"), html);
        assertFalse(html.contains("src=\"http") || html.contains("<script") || html.contains("<link"), html);
    }

    @Test
    void displayCanBeUpdatedFromALaterCell() throws Exception {
        JsonArray shown = fine(9).getAsJsonArray("outputs");
        assertEquals(
                "{\"output_type\":\"display_data\",\"data\":{\"text/plain\":\"second\"},\"metadata\":{}}",
                shown.get(0).toString());
        assertTrue(shown.get(1).toString().contains("\"other\""));
        assertEquals("[]", outputs(fine(10)));
        assertTrue(outputs(fine(11)).contains("\"text/markdown\":\"*x*\""));
        assertTrue(outputs(fine(12)).contains("\"text/plain\":\"true\""));
    }

    @Test
    void firstErrorStopsTheRunAndIsLocated() throws Exception {
        assertEquals("bad, cell [2], line 2: java.lang.ArithmeticException: / by zero", firstError.getMessage());
        List<JsonObject> cells = executed(shared, "bad");
        assertTrue(outputs(cells.get(1)).contains("\"ename\":\"ArithmeticException\""), outputs(cells.get(1)));
        assertTrue(page("bad").contains("class=\"output error\""));
        assertFalse(Files.exists(shared.resolve("out/next.ipynb")));
    }

    @Test
    void invalidFormulaIsReportedBeforeAnyCellRuns() throws Exception {
        Path ran = folder.resolve("ran");
        Path bad = new WrittenNotebook()
                .code("Files.createFile(Path.of(\"" + ran + "\"));")
                .markdown("# Text", "", "Wrong: $\\nosuch{1}$")
                .save(folder, "formula");
        String message = fails(Duration.ofSeconds(60), bad).getMessage();
        assertTrue(message.startsWith("formula, text in cell 2, line 3: "), message);
        assertFalse(Files.exists(ran));
    }

    @Test
    void compilationErrorIsLocated() {
        assertEquals("second, cell [1], line 2: cannot find symbol", failureOfSecond.getMessage());
    }

    @Test
    void cellThatExceedsTheTimeLimitIsInterrupted() throws Exception {
        Path slow = new WrittenNotebook()
                .code("1")
                .code("int i = 0;", "while (true) Thread.sleep(++i);")
                .save(folder, "slow");
        assertEquals(
                "slow, cell [2], line 2: took longer than 6 s",
                fails(LIMIT, slow).getMessage());
    }

    @Test
    void cellThatCatchesTheInterruptIsInterruptedAgain() throws Exception {
        Path stubborn = new WrittenNotebook()
                .code(
                        "int caught = 0;",
                        "while (caught < 3) try { Thread.sleep(60_000); } catch (Throwable t) { caught++; }",
                        "caught")
                .save(folder, "stubborn");
        // The line depends on where the last interrupt arrives.
        String message = fails(LIMIT, stubborn).getMessage();
        assertTrue(message.matches("stubborn, cell \\[1], line [23]: took longer than 6 s"), message);
    }

    @Test
    void cellThatEndsAfterTheTimeLimitFails() throws Exception {
        Path late = new WrittenNotebook()
                .code("try { Thread.sleep(60_000); } catch (InterruptedException e) { }")
                .save(folder, "late");
        assertEquals("late, cell [1]: took longer than 6 s", fails(LIMIT, late).getMessage());
    }

    @Test
    void taggedCellMayFail() throws Exception {
        assertTrue(outputs(fine(13)).contains("NumberFormatException"));
        assertTrue(outputs(fine(14)).contains("went on"));
    }

    @Test
    void eachNotebookHasItsOwnDeclarations() {
        // n is a variable of the notebook before
        assertTrue(failureOfSecond.report().toString().contains("int b = n;"), failureOfSecond.toString());
    }

    @Test
    void oldOutputsAreRemoved() throws Exception {
        assertEquals("[]", outputs(executed(shared, "bad").get(2)));
    }

    @Test
    void fileThatIsNotANotebookIsNamed() throws IOException {
        Path file = Files.writeString(folder.resolve("no.ipynb"), "{\"cells\": 3}");
        IOException error = assertThrows(IOException.class, () -> run(file));
        assertTrue(error.getMessage().contains("no.ipynb"), error.getMessage());
    }
}
