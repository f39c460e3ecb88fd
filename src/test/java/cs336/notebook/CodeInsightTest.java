package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.spencerpark.jupyter.kernel.ReplacementOptions;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import io.github.spencerpark.jupyter.kernel.display.mime.MIMEType;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CodeInsightTest {
    private static Evaluator evaluator;
    private static CodeInsight insight;

    @BeforeAll
    static void open() throws CellException {
        evaluator = new Evaluator(Imports.GENEROUS);
        evaluator.eval("String greeting = \"hello\";\nint area(int width, int height) { return width * height; }", 1);
        insight = new CodeInsight(evaluator.analysis(), new SourceDocs(Path.of("src/main/java")));
    }

    @AfterAll
    static void close() {
        evaluator.close();
    }

    @Test
    void completesMembersAtTheCursor() {
        String cell = "int n = greeting.toUpp + 1;";
        int cursor = cell.indexOf(" + 1");
        ReplacementOptions options = insight.complete(cell, cursor);
        assertEquals(List.of("toUpperCase("), options.getReplacements());
        assertEquals(cell.indexOf("toUpp"), options.getSourceStart());
        assertEquals(cursor, options.getSourceEnd());
    }

    @Test
    void completesAfterDeclarationsInTheSameCell() {
        String cell = "import java.util.BitSet;\nrecord P(int x) {}\nString.val";
        ReplacementOptions options = insight.complete(cell, cell.length());
        assertEquals(List.of("valueOf("), options.getReplacements());
        assertEquals(cell.indexOf("val"), options.getSourceStart());
    }

    @ParameterizedTest
    @ValueSource(strings = {"Path.of(\"figures/", "String s = \"Files.", "char c = '\"'; String s = \"a \\\" gre"})
    void nothingIsCompletedInsideOfAString(String cell) {
        assertEquals(List.of(), insight.complete(cell, cell.length()).getReplacements());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"\"a\".toUpp", "String s = \"a \\\"\" + gre", "char c = '\"';\ngre", "String s = '\"' + gre"})
    void namesAfterAStringAreCompleted(String cell) {
        assertEquals(1, insight.complete(cell, cell.length()).getReplacements().size());
    }

    @Test
    void expressionsOfTheExpectedTypeComeFirst() {
        ReplacementOptions options = insight.complete("String s = gre", 14);
        assertEquals("greeting", options.getReplacements().get(0));
    }

    @Test
    void internalNamesAndMethodsOfEveryObjectComeLast() {
        List<String> names = insight.complete("Tensor.", 7).getReplacements();
        assertFalse(names.get(0).startsWith("_"), names.toString());
        List<String> ofString = insight.complete("greeting.", 9).getReplacements();
        int last = ofString.size();
        assertTrue(ofString.subList(last - 9, last).contains("hashCode()"), ofString.toString());
        assertFalse(ofString.subList(0, 5).contains("equals("), ofString.toString());
    }

    @Test
    void completionsHaveKinds() {
        Object kinds = CodeInsight.kinds(List.of("area(", "String", "greeting", "while", "cs336."), 2, 5)
                .get("_jupyter_types_experimental");
        List<String> types = new ArrayList<>();
        for (Object kind : (List<?>) kinds) {
            types.add(((Map<?, ?>) kind).get("type").toString());
            assertEquals(2, ((Map<?, ?>) kind).get("start"));
        }
        assertEquals(List.of("function", "class", "instance", "keyword", "module"), types);
    }

    @Test
    void inspectionShowsTheSignature() {
        DisplayData shown = insight.inspect("int a = area(3, 4);", 9);
        assertEquals("int area(int width, int height)", shown.getData(MIMEType.TEXT_PLAIN));
        assertTrue(insight.inspect("greeting", 3)
                .getData(MIMEType.TEXT_PLAIN)
                .toString()
                .startsWith("greeting:java.lang.String"));
        assertNull(insight.inspect("nothing_known", 3));
    }

    @ParameterizedTest
    @CsvSource({
        "Project.path(, 'Returns a file or folder of the project.'",
        "new Figure(, Creates a figure of the given panels",
        "MemoryScope, frees",
        "'Tensors.of(new float[0], 1', Returns"
    })
    void inspectionShowsTheJavadocOfThisProject(String cell, String documentation) {
        DisplayData shown =
                insight.inspect(cell, Math.max(1, cell.indexOf('(') < 0 ? cell.length() : cell.indexOf('(')));
        String text = (String) shown.getData(MIMEType.TEXT_PLAIN);
        assertTrue(text.toLowerCase(Locale.ROOT).contains(documentation.toLowerCase(Locale.ROOT)), text);
    }

    @Test
    void documentationIsMarkdown() {
        String shown = (String) insight.inspect("Project.path(", 12).getData(MIMEType.TEXT_MARKDOWN);
        assertTrue(shown.startsWith("```java\n") && shown.contains("\n- **fromRoot** path relative"), shown);
        assertTrue(shown.contains("- **throws** `UncheckedIOException` if the working folder"), shown);
        assertEquals("a `b` < c\n\nd", SourceDocs.markdown("a {@code b} &lt; c\n\n<p>d"));
        assertEquals("`escape`, `Sgd.step`", SourceDocs.markdown("{@link #escape}, {@link Sgd#step}"));
    }

    @ParameterizedTest
    @CsvSource({
        "1 + 1, complete",
        "'', complete",
        "'int x = 3;\nx', complete",
        "'for (int i = 0; i < 3; i++) {', '    '",
        "'int x = 1;\n  while (true) {\n    x++;', '    '",
        "int x = ;, invalid"
    })
    void recognizesCompleteCells(String cell, String answer) {
        assertEquals(answer, insight.isComplete(cell));
    }
}
