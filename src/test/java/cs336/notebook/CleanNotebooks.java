package cs336.notebook;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Notebooks are kept without what an execution leaves in them, so that changes to them can be read. */
public final class CleanNotebooks {
    private CleanNotebooks() {}

    /**
     * What is not clean in a folder's notebooks: a line for each cell with outputs or an execution count.
     *
     * @return lines such as {@code "01-benchmarking.ipynb, cell 3: has outputs"}; none if all is well
     * @throws IOException if a notebook cannot be read
     */
    public static List<String> problemsIn(Path folder) throws IOException {
        List<String> problems = new ArrayList<>();
        for (Path file : Notebook.in(folder)) {
            List<Notebook.Cell> cells = Notebook.read(file).cells();
            for (int i = 0; i < cells.size(); i++) {
                String where = file.getFileName() + ", cell " + (i + 1) + ": has ";
                if (!cells.get(i).outputs().isEmpty()) {
                    problems.add(where + "outputs");
                }
                if (cells.get(i).hasExecutionCount()) {
                    problems.add(where + "an execution count");
                }
            }
        }
        return problems;
    }
}
