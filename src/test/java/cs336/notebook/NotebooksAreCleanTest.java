package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;

import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NotebooksAreCleanTest {
    /** The characters of a line of code that JupyterLab shows without scrolling in a window of 1280 pixels. */
    private static final int WIDEST = 105;

    /** The same for commands in a cell of text. */
    private static final int WIDEST_IN_TEXT = 90;

    private static final Pattern LISTING = Pattern.compile("(?ms)^```\\w*\n(.*?)^```");

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
                String where = file.getFileName() + ", " + cell.id() + ": ";
                if (cell.isCode()) {
                    fits(cell.source(), WIDEST, where);
                } else {
                    LISTING.matcher(cell.source())
                            .results()
                            .forEach(listing -> fits(listing.group(1), WIDEST_IN_TEXT, where));
                }
            }
        }
    }

    /** Checks that no line is longer than this. */
    private static void fits(String text, int widest, String where) {
        text.lines()
                .filter(line -> line.codePointCount(0, line.length()) > widest)
                .forEach(line -> fail(where + "more than " + widest + " characters: " + line));
    }

    /** Text results are as wide as cells of code. */
    static void fitsIntoAnOutput(String text, String where) {
        fits(text, WIDEST, where);
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
