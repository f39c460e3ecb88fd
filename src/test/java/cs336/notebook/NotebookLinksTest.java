package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** Links between notebooks: files exist, and so do the headings after {@code #}, written as in JupyterLab. */
class NotebookLinksTest {
    private static final Pattern LINK = Pattern.compile("]\\(([^)#:]+)(?:#([^)]+))?\\)");
    private static final Pattern HEADING = Pattern.compile("(?m)^#+ (.*)$");

    private static String text(Path notebook) throws IOException {
        return Notebook.read(notebook).cells().stream()
                .filter(Notebook.Cell::isMarkdown)
                .map(Notebook.Cell::source)
                .collect(Collectors.joining("\n\n"));
    }

    private static Set<String> anchors(Path notebook) throws IOException {
        return HEADING.matcher(text(notebook))
                .results()
                .map(heading -> heading.group(1).replace(' ', '-'))
                .collect(Collectors.toSet());
    }

    private static List<String> problemsIn(Path folder) throws IOException {
        List<String> problems = new ArrayList<>();
        for (Path file : Notebook.in(folder)) {
            Matcher links = LINK.matcher(text(file));
            for (MatchResult link : links.results().toList()) {
                Path target = file.resolveSibling(link.group(1));
                String anchor = link.group(2);
                if (!Files.exists(target)
                        || anchor != null
                                && target.toString().endsWith(".ipynb")
                                && !anchors(target).contains(anchor)) {
                    problems.add(file.getFileName() + ": " + link.group());
                }
            }
        }
        return problems;
    }

    @Test
    void linksBetweenNotebooksLeadToTheirHeadings() throws IOException {
        assertEquals(List.of(), problemsIn(Path.of("notebooks")));
        assertEquals(List.of(), problemsIn(Path.of(Exercises.FOLDER)));
    }

    /** The links of the writeup's chapters lead to each other only after it is built. */
    @Test
    void noCellLinksToTheSourceOfTheWriteup() throws IOException {
        for (String folder : List.of("notebooks", Exercises.FOLDER)) {
            for (Path file : Notebook.in(Path.of(folder))) {
                for (Notebook.Cell cell : Notebook.read(file).cells()) {
                    assertFalse(cell.source().contains("../writeup/"), file + ": " + cell.source());
                }
            }
        }
    }
}
