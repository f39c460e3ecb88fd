package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/**
 * Checks that the cells of the notebooks call only functions of this project's kernel that IJava has, too. The command
 * {@code report} runs them with the imports of IJava.
 */
class PortableNotebooksTest {
    /** The functions of IJava's runtime that cells may call without a class. */
    private static final Set<String> OF_IJAVA = Set.of(
            "getKernelInstance()",
            "render(Object)",
            "render(Object, String[])",
            "display(Object)",
            "display(Object, String[])",
            "updateDisplay(String, Object)",
            "updateDisplay(String, Object, String[])");

    /** Classes of this package that do without its kernel. */
    private static final Set<String> INDEPENDENT = Set.of("Check", "Renderers");

    private static final Pattern KERNEL = Pattern.compile("getKernelInstance\\(\\)(\\.\\w+\\(\\))?");
    private static final Pattern OF_THIS_PACKAGE = Pattern.compile("cs336\\.notebook\\.(\\w+)");

    private static List<Path> notebooks() throws IOException {
        List<Path> all = new ArrayList<>(Notebook.in(Project.path("notebooks")));
        all.addAll(Notebook.in(Project.path(Exercises.FOLDER)));
        assertTrue(all.size() > 17, all.toString());
        return all;
    }

    @Test
    void functionsWithoutAClassAreThoseOfIJava() {
        Set<String> ours = new TreeSet<>();
        for (Method method : Display.class.getDeclaredMethods()) {
            if (Modifier.isPublic(method.getModifiers())) {
                List<String> types = Arrays.stream(method.getParameterTypes())
                        .map(Class::getSimpleName)
                        .toList();
                ours.add(method.getName() + "(" + String.join(", ", types) + ")");
            }
        }
        assertEquals(new TreeSet<>(OF_IJAVA), ours);
    }

    @Test
    void cellsUseNoMagicsAndNothingElseOfThisKernel() throws Exception {
        try (var evaluator = new Evaluator(Imports.PORTABLE)) {
            for (Path file : notebooks()) {
                for (Notebook.Cell cell : Notebook.read(file).cells()) {
                    if (!cell.isCode()) {
                        continue;
                    }
                    String source = cell.source();
                    String where = file.getFileName() + ", " + cell.id();
                    assertEquals(source, Magics.translate(source, 1, evaluator.analysis(), name -> false), where);
                    for (Matcher use = KERNEL.matcher(source); use.find(); ) {
                        assertEquals("getKernelInstance().getRenderer()", use.group(), where);
                    }
                    for (Matcher use = OF_THIS_PACKAGE.matcher(source); use.find(); ) {
                        assertTrue(
                                INDEPENDENT.contains(use.group(1))
                                        || use.group(1).equals("widgets"),
                                where + ": " + use.group());
                    }
                }
            }
        }
    }

    @Test
    void theFirstCellRegistersTheRenderersWhichIJavaDoesNotKnow() throws IOException {
        for (Path file : Notebook.in(Project.path("notebooks"))) {
            String first = Notebook.read(file).cells().stream()
                    .filter(Notebook.Cell::isCode)
                    .findFirst()
                    .orElseThrow()
                    .source();
            assertTrue(
                    first.contains("Renderers.registerIn(getKernelInstance().getRenderer());"),
                    file.getFileName().toString());
        }
    }
}
