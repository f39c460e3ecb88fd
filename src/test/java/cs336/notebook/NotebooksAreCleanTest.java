package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NotebooksAreCleanTest {
    /** The characters of a line of code that JupyterLab shows without scrolling in a window of 1280 pixels. */
    private static final int WIDEST = 105;

    @Test
    void notebooksOfThisProjectHaveNoOutputsAndNoCounts() throws IOException {
        assertEquals(List.of(), CleanNotebooks.problemsIn(Path.of("notebooks")), "run ./cs336 notebooks --clean");
    }

    @Test
    void codeFitsIntoACell() throws IOException {
        var files = new ArrayList<Path>(Notebook.in(Project.path("notebooks")));
        files.addAll(Notebook.in(Project.path(Exercises.FOLDER)));
        for (Path file : files) {
            for (Notebook.Cell cell : Notebook.read(file).cells()) {
                int widest = cell.isCode()
                        ? cell.source()
                                .lines()
                                .mapToInt(line -> line.codePointCount(0, line.length()))
                                .max()
                                .orElse(0)
                        : 0;
                assertTrue(widest <= WIDEST, file.getFileName() + ", " + cell.id() + ": " + widest + " characters");
            }
        }
    }

    @Test
    void outputsAndCountsAreFound(@TempDir Path folder) throws IOException {
        new WrittenNotebook().markdown("# Text").code("1").save(folder, "a-clean");
        new WrittenNotebook()
                .markdown("# Text")
                .codeWithOutput("1")
                .codeWithCount(3, "2")
                .save(folder, "b-dirty");
        assertEquals(
                List.of("b-dirty.ipynb, cell 2: has outputs", "b-dirty.ipynb, cell 3: has an execution count"),
                CleanNotebooks.problemsIn(folder));
    }
}
