package cs336.notebook;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A check that notebooks are stored without outputs and execution counts, so that diffs stay readable. */
final class CleanNotebooks {
    private CleanNotebooks() {}

    /**
     * Returns a line for each cell of a folder's notebooks that has outputs or an execution count.
     *
     * @return lines such as {@code "01-benchmarking.ipynb, cell 3: has outputs"}; empty if there are none
     * @throws IOException if a notebook cannot be read
     */
    static List<String> problemsIn(Path folder) throws IOException {
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
