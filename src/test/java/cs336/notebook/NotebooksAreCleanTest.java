package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NotebooksAreCleanTest {
    @Test
    void notebooksOfThisProjectHaveNoOutputsAndNoCounts() throws IOException {
        assertEquals(List.of(), CleanNotebooks.problemsIn(Path.of("notebooks")), "run ./cs336 notebooks --clean");
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
