package cs336.writeup;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.charts.OtherJvm;
import cs336.numbers.MadeUpMeasurements;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.pdfbox.Loader;
import org.apache.pdfbox.pdmodel.documentinterchange.logicalstructure.PDStructureElement;
import org.apache.pdfbox.pdmodel.documentinterchange.logicalstructure.PDStructureNode;
import org.apache.pdfbox.text.PDFTextStripper;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class WriteupTest {
    private static final String FRONT = """
            ---
            title: Made up & small
            machine: pretend
            define:
              xl: timing[size=xl, implementation=plain, metric=forward]
            ---
            """;
    private static final String TEXT = FRONT + """

            # Made up

            One pass takes {{xl[context=256] : %.1f ms}}, see [Figure](../figures/points.svg), [Table](#table-times)
            and `{{code}}`. The loss is $\\sigma^2$.

            ![Times by context, **made up**.](../figures/points.svg)

            ```table
            from: timing[implementation=plain, metric=forward]
            rows: size
            columns: context
            format: %.1f ms
            caption: Times by *size*.
            name: times
            ```

            ```java
            int[][] a = {{1}};
            ```
            """;

    @TempDir
    private Path root;

    /** Builds the writeup in the folder of the first argument into the folder of the second. */
    public static void main(String[] arguments) throws Exception {
        Writeup.read(Path.of(arguments[0])).save(Path.of(arguments[1]));
    }

    private List<String> problems(String text) throws IOException {
        Path folder = MadeUpMeasurements.project(root, text);
        String message =
                assertThrows(WriteupException.class, () -> Writeup.read(folder)).getMessage();
        return message.lines().map(line -> line.replace(folder + "/", "")).toList();
    }

    @Test
    void thePageIsSelfContainedAndContainsTheNumbers() throws Exception {
        String html = Writeup.read(MadeUpMeasurements.project(root, TEXT)).html();
        for (var link : Pattern.compile("(?:src|href)=\"([^\"]*)\"|url\\(([^)]*)\\)")
                .matcher(html)
                .results()
                .toList()) {
            String address = link.group(1) != null ? link.group(1) : link.group(2);
            assertTrue(
                    address.startsWith("data:") || address.startsWith("#"),
                    address.substring(0, Math.min(80, address.length())));
        }
        assertTrue(html.contains("One pass takes 128.0\u00a0ms"));
        assertTrue(html.contains("<a href=\"#figure-points\">Figure\u00a01</a>"));
        assertTrue(html.contains("<a href=\"#table-times\">Table\u00a01</a>"));
        assertTrue(html.contains("<figcaption><b>Figure 1.</b> Times by context,"
                + " <span class=\"whole\"><strong>made up</strong>.</span>"));
        assertTrue(html.contains("<b>Table 1.</b> Times by <em>size</em> (ms)."));
        assertTrue(html.contains("<code>{{code}}</code>"));
        assertTrue(html.contains("int[][] a = {{1}};"));
        assertTrue(html.contains("<td>pretend/timing.csv</td><td>Pretend GPU</td><td>java 17</td><td>abc</td>"
                + "<td>2026-01-01 to 2026-01-02</td>"));
        assertTrue(html.contains("<title>Made up &amp; small</title>"));
    }

    @Test
    void thePdfHasPagesTextAndOutline() throws Exception {
        byte[] pdf = Writeup.read(MadeUpMeasurements.project(root, TEXT)).pdf();
        try (var document = Loader.loadPDF(pdf)) {
            assertTrue(document.getNumberOfPages() >= 1);
            var stripper = new PDFTextStripper();
            stripper.setSortByPosition(true);
            String text = stripper.getText(document).replace('\u00a0', ' ');
            assertTrue(text.contains("One pass takes 128.0 ms, see Figure 1, Table 1 and {{code}}."), text);
            assertTrue(text.contains("Figure 1. Times by context, made up."), text);
            assertTrue(text.contains("int[][] a = {{1}};"), text);
            assertFalse(text.contains("#"), "a glyph is missing: " + text);
            assertEquals("en", document.getDocumentCatalog().getLanguage());
            assertEquals("Made up & small", document.getDocumentInformation().getTitle());
            assertEquals(
                    "Made up",
                    document.getDocumentCatalog()
                            .getDocumentOutline()
                            .getFirstChild()
                            .getTitle());
        }
    }

    @Test
    void aPageWithAFontThatIsNotEmbeddedIsRejected() {
        String page = Page.forPrint("Made up", "<h1 id=\"a\">A</h1><p style=\"font-family: fantasy\">lost</p>");
        assertTrue(assertThrows(IllegalArgumentException.class, () -> Pdf.render("Made up", page))
                .getMessage()
                .contains("no embedded font"));
    }

    @Test
    void thePdfHasStructureTagsAndAlternativeTexts() throws Exception {
        byte[] pdf = Writeup.read(MadeUpMeasurements.project(root, TEXT)).pdf();
        try (var document = Loader.loadPDF(pdf)) {
            assertTrue(document.getDocumentCatalog().getMarkInfo().isMarked());
            List<PDStructureElement> elements =
                    elements(document.getDocumentCatalog().getStructureTreeRoot());
            List<String> types =
                    elements.stream().map(PDStructureElement::getStructureType).toList();
            assertTrue(types.containsAll(List.of("H1", "P", "Link", "Table", "TH", "TD", "Figure")), types.toString());
            List<String> alternatives = elements.stream()
                    .filter(element -> element.getStructureType().equals("Figure"))
                    .map(PDStructureElement::getAlternateDescription)
                    .toList();
            assertTrue(alternatives.contains("Times by context, made up."), alternatives.toString());
            assertTrue(
                    alternatives.stream().noneMatch(text -> text == null || text.isBlank()),
                    "a formula or a figure has none: " + alternatives);
        }
    }

    private static List<PDStructureElement> elements(PDStructureNode node) {
        var elements = new ArrayList<PDStructureElement>();
        for (Object child : node.getKids()) {
            if (child instanceof PDStructureElement element) {
                elements.add(element);
                elements.addAll(elements(element));
            }
        }
        return elements;
    }

    @Test
    void filesAreIdenticalInAJvmWithAnotherLocaleAndWithoutFonts() throws Exception {
        Path folder = MadeUpMeasurements.project(root, TEXT);
        Writeup.read(folder).save(root.resolve("here"));
        String output = OtherJvm.run(
                WriteupTest.class,
                Map.of(),
                folder.toString(),
                root.resolve("there").toString());
        for (String file : List.of("writeup.html", "writeup.pdf")) {
            Path there = root.resolve("there").resolve(file);
            assertTrue(Files.exists(there), output);
            assertArrayEquals(Files.readAllBytes(root.resolve("here").resolve(file)), Files.readAllBytes(there), file);
        }
    }

    @Test
    void chaptersAreOrderedByFileName() throws Exception {
        Path folder = MadeUpMeasurements.project(root, FRONT + "# One\n");
        Files.writeString(folder.resolve("03-c.md"), "# Three\n\n{{xl[context=128] : %.0f ms}}\n");
        Files.writeString(folder.resolve("02-b.md"), "# Two\n");
        String html = Writeup.read(folder).html();
        assertTrue(html.indexOf(">One<") < html.indexOf(">Two<"));
        assertTrue(html.indexOf(">Two<") < html.indexOf(">Three<"));
        assertTrue(html.contains("<p>64\u00a0ms</p>"));
    }

    @Test
    void everyProblemHasItsFileAndLine() throws Exception {
        List<String> problems = problems(FRONT + """
                {{xl[context=64] : %.1f}}
                {{timing[size=xl] : %.1f}} and {{xl[context=128]}}
                {{xl[context=512] : %.1f}} {{xl

                ![caption](../figures/absent.svg)

                Words ∇ and `∇`. [Figure](../figures/absent.svg)

                ```table
                from: nothing
                rows: size
                format: %.1f
                caption: Nothing
                ```
                """);
        assertEquals(9, problems.size(), problems.toString());
        assertTrue(problems.get(0).startsWith("writeup.md:7: {{xl[context=64] : %.1f}}: no row matches"));
        assertTrue(problems.get(1).startsWith("writeup.md:8: {{timing[size=xl] : %.1f}}: ambiguous: 6 rows"));
        assertTrue(problems.get(2).startsWith("writeup.md:8: {{xl[context=128]}}: no format"));
        assertTrue(problems.get(3).contains(":9: ") && problems.get(3).endsWith("its status is oom"));
        assertTrue(problems.get(4).startsWith("writeup.md:9: {{: \"}}\" is missing"));
        assertTrue(problems.get(5).startsWith("writeup.md:13: Source Sans 3 has no character ∇"));
        assertTrue(problems.get(6).startsWith("writeup.md:13: Source Code Pro has no character ∇"));
        assertTrue(problems.get(7).startsWith("writeup.md:15: table: no measurements"));
        assertTrue(problems.get(8).startsWith("writeup.md:11: missing image ../figures/absent.svg"));
    }

    @Test
    void brokenLinksAreReported() throws Exception {
        assertTrue(problems(FRONT + "[Figure](../figures/points.svg)\n")
                .get(0)
                .startsWith("writeup.md:7: link to ../figures/points.svg leads to no figure"));
        assertTrue(problems(FRONT + "[Table](#table-x)\n").get(0).contains("#table-x"));
        assertTrue(problems(FRONT + "[file](absent.md)\n").get(0).contains("absent.md"));
    }

    @Test
    void frontMatterIsChecked() throws Exception {
        assertTrue(problems("# No front matter\n").get(0).startsWith("writeup.md:1: a writeup must begin with"));
        assertTrue(problems("---\ntitle: x\n---\n").get(0).contains("must have a title and a machine"));
        assertTrue(problems("---\ntitle: x\nmachine: moon\n---\n").get(0).endsWith("existing folders: pretend"));
        assertTrue(problems("---\ntitel: x\n---\n").get(0).startsWith("writeup.md:2: \"titel\" is not one of"));
        assertTrue(
                problems(FRONT.replace("timing[size=xl", "timing[size")).get(0).startsWith("writeup.md:5: xl: "));
    }

    @Test
    void theCommandWritesBothFilesAndFailsWithTheProblems() throws Exception {
        Path folder = MadeUpMeasurements.project(root, TEXT);
        Path output = root.resolve("out");
        assertEquals(
                0,
                new CommandLine(new WriteupCommand())
                        .setOut(new PrintWriter(new StringWriter()))
                        .execute(folder.toString(), "--output", output.toString()));
        assertTrue(Files.size(output.resolve("writeup.html")) > 10_000);
        assertTrue(Files.size(output.resolve("writeup.pdf")) > 10_000);
        MadeUpMeasurements.project(root, FRONT + "{{absent : %.1f}}\n");
        var err = new StringWriter();
        var command = new CommandLine(new WriteupCommand()).setErr(new PrintWriter(err));
        assertEquals(1, command.execute(folder.toString(), "--output", output.toString()));
        assertTrue(err.toString().contains("writeup.md:7: {{absent : %.1f}}: no measurements"), err.toString());
        assertEquals(2, command.execute(root.toString()));
    }
}
