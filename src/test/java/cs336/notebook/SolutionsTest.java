package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.Torch;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import io.github.spencerpark.jupyter.kernel.display.mime.MIMEType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Exercises of the notebooks: each check fails before its solution is filled in, and passes afterwards. Of the other
 * cells only those run that exercises depend on.
 */
class SolutionsTest {
    private static final Path NOTEBOOKS = Path.of("notebooks");
    private static final Pattern SHOWS_SOURCE = Pattern.compile("(?m)^lines\\(|^text\\.substring\\(");
    private static int threads;

    static List<String> notebooksWithExercises() throws IOException {
        List<String> names = new ArrayList<>();
        for (Path file : Notebook.in(NOTEBOOKS)) {
            if (Notebook.read(file).cells().stream().anyMatch(SolutionsTest::isExercise)) {
                names.add(file.getFileName().toString());
            }
        }
        return names;
    }

    private static boolean isExercise(Notebook.Cell cell) {
        return cell.isCode() && cell.id().matches(Exercises.CELL + "\\d+");
    }

    /** One thread per operation, because several threads for tensors as small as these wait for each other. */
    @BeforeAll
    static void useOneThread() {
        threads = Torch.threads();
        Torch.setThreads(1);
    }

    @AfterAll
    static void useAllThreads() {
        Torch.setThreads(threads);
    }

    @ParameterizedTest
    @MethodSource("notebooksWithExercises")
    void everyExerciseFailsBeforeItsSolutionAndPassesAfterIt(String name) throws Exception {
        List<Notebook.Cell> cells = Notebook.read(NOTEBOOKS.resolve(name)).cells();
        List<Notebook.Cell> solutions =
                Notebook.read(Path.of(Exercises.FOLDER).resolve(name)).cells();
        var kernel = new JavaKernel(Imports.PORTABLE, new LimitedOutputs(event -> {}));
        int solved = 0;
        for (Notebook.Cell cell : cells) {
            String where = name + ", " + cell.id() + ": ";
            if (isExercise(cell)) {
                String number = name.substring(0, 2) + "." + cell.id().substring(Exercises.CELL.length());
                assertTrue(cell.source().contains("Check.that(\"" + number + " "), where + "no check of " + number);
                String before = shown(kernel, cell, where);
                assertTrue(before.startsWith("○") || before.startsWith("✗"), where + before);
                assertFalse(Exercises.hint(number).isBlank(), where);
                String after = shown(kernel, only(solutions, cell.id()), where);
                assertTrue(passed(after), where + after);
                solved++;
            } else if (cell.isCode() && cell.hasTag(Exercises.TAG)) {
                shown(kernel, cell, where);
            }
        }
        assertEquals(
                solved, solutions.stream().filter(SolutionsTest::isExercise).count(), "solutions of " + name);
    }

    /** All checks of a cell, not only the first. */
    private static boolean passed(String shown) {
        return shown.startsWith("✓") && shown.lines().noneMatch(line -> line.matches("[✗○].*"));
    }

    /** README tells newcomers to make the first tensor smaller. */
    @Test
    void firstExerciseCanBeSolvedWithASmallerTensor() throws Exception {
        String name = "00-start-here.ipynb";
        var kernel = new JavaKernel(Imports.PORTABLE, new LimitedOutputs(event -> {}));
        for (Notebook.Cell cell : Notebook.read(NOTEBOOKS.resolve(name)).cells()) {
            if (cell.isCode() && cell.hasTag(Exercises.TAG)) {
                kernel.eval(cell.source().replace("1000, 96", "4, 4"), 1);
            }
        }
        List<Notebook.Cell> solutions =
                Notebook.read(Path.of(Exercises.FOLDER).resolve(name)).cells();
        String shown = shown(kernel, only(solutions, Exercises.CELL + 1), name + ": ");
        assertTrue(passed(shown), shown);
    }

    static List<String> notebooksWithKernels() throws IOException {
        List<String> names = new ArrayList<>();
        for (Path file : Notebook.in(NOTEBOOKS)) {
            if (Notebook.read(file).cells().stream().anyMatch(cell -> cell.hasTag(NotebookRunner.KERNEL_TAG))) {
                names.add(file.getFileName().toString());
            }
        }
        return names;
    }

    /** Runs what {@code cs336 notebooks --store-kernels} runs, here without a GPU. */
    @ParameterizedTest
    @MethodSource("notebooksWithKernels")
    void kernelCellsNeedNoOtherCellsAndSayWhereTheirNumbersComeFrom(String name) throws Exception {
        var kernel = new JavaKernel(Imports.PORTABLE, new LimitedOutputs(event -> {}));
        for (Notebook.Cell cell : Notebook.read(NOTEBOOKS.resolve(name)).cells()) {
            if (cell.hasTag(NotebookRunner.KERNEL_TAG)) {
                String shown = shown(kernel, cell, name + ", " + cell.id() + ": ");
                assertTrue(
                        shown.matches("(?s)(stored: |measured now: |No execution of ).*"),
                        name + ", " + cell.id() + ": " + shown);
            } else if (cell.isCode() && cell.hasTag(Exercises.TAG)) {
                shown(kernel, cell, name + ", " + cell.id() + ": ");
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"05-first-kernel.ipynb", "08-flash-attention.ipynb"})
    void shownLinesOfKernelsFitIntoAnOutput(String name) throws Exception {
        var kernel = new JavaKernel(Imports.PORTABLE, new LimitedOutputs(event -> {}));
        kernel.eval("import cs336.kernels.runtime.*;", 1);
        int shown = 0;
        for (Notebook.Cell cell : Notebook.read(NOTEBOOKS.resolve(name)).cells()) {
            if (cell.isCode() && SHOWS_SOURCE.matcher(cell.source()).find()) {
                String text = shown(kernel, cell, name + ", " + cell.id() + ": ");
                assertTrue(text.contains("{\n"), text);
                shown++;
            }
        }
        assertTrue(shown > 0, name);
    }

    private static Notebook.Cell only(List<Notebook.Cell> cells, String id) {
        List<Notebook.Cell> found =
                cells.stream().filter(cell -> cell.id().equals(id)).toList();
        assertEquals(1, found.size(), "cells " + id);
        return found.get(0);
    }

    private static String shown(JavaKernel kernel, Notebook.Cell cell, String where) throws CellException {
        try {
            DisplayData shown = kernel.eval(cell.source(), 1);
            String text = shown == null ? "" : String.valueOf(shown.getData(MIMEType.TEXT_PLAIN));
            NotebooksAreCleanTest.fitsIntoAnOutput(text, where);
            return text;
        } catch (CellException e) {
            throw new AssertionError(where + String.join("\n", e.report()), e);
        }
    }

    @Test
    void everyFileOfSolutionsBelongsToANotebook() throws IOException {
        Set<String> names = new HashSet<>(notebooksWithExercises());
        for (Path file : Notebook.in(Path.of(Exercises.FOLDER))) {
            assertTrue(names.contains(file.getFileName().toString()), file + " has no notebook with exercises");
        }
        assertTrue(Files.isDirectory(Path.of(Exercises.FOLDER)));
    }

    @Test
    void solutionsHaveNoOutputsAndNoCounts() throws IOException {
        assertEquals(List.of(), CleanNotebooks.problemsIn(Path.of(Exercises.FOLDER)));
    }
}
