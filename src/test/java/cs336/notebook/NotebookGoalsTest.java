package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class NotebookGoalsTest {
    @Test
    void everyNotebookBeginsWithGoalsRequirementsAndDuration() throws IOException {
        List<Path> notebooks = Notebook.in(Project.path("notebooks"));
        assertEquals(17, notebooks.size());
        for (Path notebook : notebooks) {
            String title = Notebook.read(notebook).cells().get(0).source();
            for (String part : List.of("**You will learn**", "**You need**", "**Duration:**")) {
                assertTrue(title.contains(part), notebook.getFileName() + " lacks " + part);
            }
        }
    }
}
