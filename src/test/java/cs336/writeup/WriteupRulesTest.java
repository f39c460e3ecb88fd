package cs336.writeup;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.numbers.MadeUpMeasurements;
import cs336.numbers.MeasurementOrigins;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.pdfbox.Loader;
import org.apache.pdfbox.pdmodel.PDDocument;
import org.apache.pdfbox.pdmodel.interactive.documentnavigation.outline.PDOutlineItem;
import org.apache.pdfbox.pdmodel.interactive.documentnavigation.outline.PDOutlineNode;
import org.apache.pdfbox.text.PDFTextStripper;
import org.apache.pdfbox.text.TextPosition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** Tests of citations, equations, the order of files, the layout of the PDF, and what the builder rejects. */
class WriteupRulesTest {
    private static final String FRONT = """
            ---
            title: Rules
            machine: pretend
            define:
              xl: timing[size=xl, implementation=plain, metric=forward]
            ---
            """;
    private static final String FIGURE = "![Times.](../figures/points.svg)\n";

    @TempDir
    private Path root;

    private final Map<String, String> files = new HashMap<>();

    private Path folder(String text) throws IOException {
        Path folder = MadeUpMeasurements.project(root, FRONT + text);
        for (var file : files.entrySet()) {
            Files.writeString(folder.resolve(file.getKey()), file.getValue());
        }
        return folder;
    }

    private String html(String text) throws Exception {
        return Writeup.read(folder(text)).html().replaceAll("(?s)<style>.*?</style>", "");
    }

    /** Returns the only problem of a writeup. */
    private String problem(String text) throws IOException {
        return problem(text, 1).get(0);
    }

    private List<String> problem(String text, int expected) throws IOException {
        Path folder = folder(text);
        String message =
                assertThrows(WriteupException.class, () -> Writeup.read(folder)).getMessage();
        assertEquals(expected, message.lines().count(), message);
        return message.replace(folder + "/", "").lines().toList();
    }

    private static void assertInOrder(String text, String... parts) {
        int at = -1;
        for (String part : parts) {
            int next = text.indexOf(part, at + 1);
            assertTrue(next > at, part + " is missing or too early");
            at = next;
        }
    }

    @Test
    void citationsAreNumbersOfTheListOfReferences() throws Exception {
        files.put("references.md", """
                ## References

                - [dao2022] Tri Dao. *FlashAttention*. NeurIPS, 2022.
                - [nvidia-h200] NVIDIA. *H200*. 2024. https://www.nvidia.com/h200
                """);
        String html = html("Tiles [@dao2022], `[@code]`, both [@nvidia-h200; @dao2022].\n");
        assertTrue(html.contains("Tiles <span class=\"whole\">[<a href=\"#reference-dao2022\">1</a>]</span>"), html);
        assertTrue(html.contains("[<a href=\"#reference-nvidia-h200\">2</a>, <a href=\"#reference-dao2022\">1</a>]"));
        assertTrue(html.contains("<code>[@code]</code>"));
        assertTrue(html.contains("<li id=\"reference-dao2022\">[1] Tri Dao. "));
        assertTrue(html.contains("<li id=\"reference-nvidia-h200\">[2] NVIDIA."));
        assertTrue(html.contains("2024. <a href=\"https://www.nvidia.com/h200\">https://www.nvidia.com/h200</a></li>"));
    }

    @Test
    void captionsCiteAndLink() throws Exception {
        files.put("references.md", "## References\n\n- [a] A.\n- [b] B.\n");
        String cited = "# Title\n\n![After [@b].](../figures/points.svg)\n\n"
                + table("cited").replace("Times", "Times as in [@a], [Figure](../figures/points.svg)");
        assertTrue(html(cited)
                .contains("Times as in <span class=\"whole\">[<a href=\"#reference-a\">1</a>]</span>,"
                        + " <a href=\"#figure-points\">Figure\u00a01</a> (ms)"));
        assertEquals(
                "writeup.md:11: link to #no leads to no heading, table or equation",
                problem(cited.replace("Times as", "[Times](#no) as")));
        assertEquals("writeup.md:11: [@c] is not in references.md", problem(cited.replace("[@a]", "[@a; @c]")));
    }

    @Test
    void unknownAndUncitedWorksAreRejected() throws Exception {
        files.put("references.md", "## References\n\n- [dao2022] Tri Dao.\n- [shah2024] Jay Shah.\n");
        assertEquals("references.md:4: no text cites the work: add [@shah2024] or remove it", problem("[@dao2022]\n"));
        assertEquals(
                "writeup.md:8: [@dao2023] is not in references.md", problem("[@dao2022; @shah2024]\n[@dao2023]\n"));
        files.put("references.md", "## References\n\n- [dao2022] Tri Dao.\n- Jay Shah.\n");
        assertTrue(problem("[@dao2022]\n").startsWith("references.md:4: a reference must begin with its key"));
        files.put("references.md", "## References\n\n- [dao2022] Tri Dao.\n- [dao2022] Jay Shah.\n");
        assertEquals("references.md:4: two references have the key dao2022", problem("[@dao2022]\n"));
    }

    @Test
    void equationsWithAnIdAreNumberedAndLinked() throws Exception {
        String html = html("""
                By [Equation](#eq-second).

                $$ a $$ {#eq-first}

                $$ b $$

                $$
                c
                $$ {#eq-second}
                """);
        assertTrue(html.contains("<a href=\"#eq-second\">Equation\u00a0(2)</a>"), html);
        assertTrue(html.matches(
                "(?s).*<table class=\"equation\" role=\"presentation\" id=\"eq-first\">.*<td>\\(1\\)</td>.*"
                        + "<div class=\"display\">.*id=\"eq-second\">.*<td>\\(2\\)</td>.*"));
        assertTrue(html.contains("aria-label=\"c\""));
        assertEquals(
                "writeup.md:7: link to #eq-none leads to no heading, table or equation",
                problem("[Equation](#eq-none)\n"));
        assertEquals("writeup.md:9: two equations have the id eq-a", problem("$$ a $$ {#eq-a}\n\n$$ b $$ {#eq-a}\n"));
    }

    @Test
    void chaptersPrecedeReferencesAndAppendices() throws Exception {
        files.put("appendix-02-more.md", "## Appendix 2: more\n\n" + table("more"));
        files.put("appendix-10-last.md", "## Appendix 10: last\n\n" + table("last"));
        files.put("references.md", "## References\n\n- [a] A.\n");
        files.put("00-summary.md", "## Summary\n\n" + table("first") + "\n[Table](#table-more)\n");
        files.put("02-two.md", "## 2 Two\n\n### A question\n");
        files.put("17-method.md", "## 17 Method\n\nBy [@a].\n");
        String html = html("# Title\n");
        assertInOrder(
                html,
                "<nav class=\"contents\">",
                "<li><a href=\"#summary\">Summary</a></li>",
                ">Appendix 10: last</a></li>",
                ">Origin of the numbers</a></li>",
                ">Summary</h2>",
                ">2 Two</h2>",
                ">17 Method</h2>",
                ">References</h2>",
                ">Appendix 2: more</h2>",
                ">Appendix 10: last</h2>",
                ">Origin of the numbers</h2>");
        assertFalse(html.contains("<li><a href=\"#a-question\">"), "the contents list chapters only");
        assertInOrder(html, "<b>Table 1.</b>", "Table\u00a0A2.1</a>", "<b>Table A2.1.</b>", "<b>Table A10.1.</b>");
    }

    @Test
    void headingsHaveTheNumbersOfTheirFiles() throws Exception {
        files.put("02-two.md", "## 3 Two\n");
        assertEquals(
                "02-two.md:1: the heading must begin with \"2\", the number in the file's name", problem("# Title\n"));
        files.put("02-two.md", "## Appendix 2: two\n");
        assertEquals(
                "02-two.md:1: the heading must begin with \"2\", the number in the file's name", problem("# Title\n"));
        files.clear();
        Files.delete(root.resolve("writeup/02-two.md"));
        files.put("appendix-02-more.md", "## More\n");
        assertEquals(
                "appendix-02-more.md:1: the heading must begin with \"Appendix 2\", the number in the file's name",
                problem("# Title\n"));
    }

    private static String table(String name) {
        return """
                ```table
                from: timing[implementation=plain, metric=forward]
                rows: size
                columns: context
                format: %.1f ms
                caption: Times
                name: NAME
                ```
                """.replace("NAME", name);
    }

    @Test
    void aChapterDefinesNamesForItself() throws Exception {
        String front = "---\ndefine:\n  ours: xl[context=128]\n---\n\n";
        files.put("02-two.md", front + "## 2 Two\n\n{{ours : %.0f ms}}\n");
        files.put("03-three.md", "## 3 Three\n");
        assertTrue(html("# Title\n").contains("<p>64\u00a0ms</p>"));
        files.put("03-three.md", "## 3 Three\n\n{{ours : %.0f ms}}\n");
        String unknown = problem("# Title\n");
        assertTrue(unknown.startsWith("03-three.md:3: {{ours : %.0f ms}}: no measurements in "), unknown);
        assertTrue(unknown.endsWith("and no name \"ours\" is defined so far"), unknown);
        files.put("03-three.md", "## 3 Three\n");
        files.put("02-two.md", front.replace("ours:", "xl:") + "## 2 Two\n");
        assertEquals("02-two.md:3: xl: name \"xl\" is already defined", problem("# Title\n"));
        files.put("02-two.md", front.replace("context=128", "size=small") + "## 2 Two\n");
        assertTrue(problem("# Title\n").startsWith("02-two.md:3: ours: \"xl\" already has the filter size=xl"));
        files.put("02-two.md", front.replace("define:", "machine: moon") + "## 2 Two\n");
        assertEquals("02-two.md:2: \"machine\" is not one of define", problem("# Title\n"));
        String cycle = "---\ndefine:\n  a: b[size=xl]\n  b: a[size=xl]\n---\n\n## 2 Two\n";
        files.put("02-two.md", cycle);
        assertTrue(
                problem("# Title\n").matches("02-two.md:3: a: no measurements in .*, and no name \"b\" is defined.*"));
    }

    private static final String WRITTEN = """
            ```table
            | size | all-reduce |
            |---|---|
            for: size = small; xl
            | **{size}** | {{timing[size={size}, context=128, implementation=plain, metric=forward] : %.0f ms}} |
            caption: Times of [@a]
            name: written
            ```
            """;

    @Test
    void aWrittenTableHasRowsAndACaption() throws Exception {
        files.put("references.md", "## References\n\n- [a] A.\n");
        String html = html("See [Table](#table-written).\n\n" + WRITTEN);
        assertTrue(html.contains("<a href=\"#table-written\">Table\u00a01</a>"), html);
        assertTrue(
                html.matches(
                        "(?s).*<figure id=\"table-written\" class=\"measured\"><figcaption><b>Table 1.</b> Times of"
                                + " .*</figcaption>\\s*<table>.*<td><strong>xl</strong></td>\\s*<td>64\u00a0ms</td>.*</table>\\s*</figure>.*"));
        String problem = problem("[@a]\n\n" + WRITTEN.replace("context=128", "context=64"), 2)
                .get(0);
        assertTrue(problem.startsWith("writeup.md:13: {{timing[size=small, context=64,"), problem);
        assertEquals(
                "writeup.md:9: table: a row must follow \"for: a = b\"",
                problem("[@a]\n\n" + WRITTEN.replace("caption:", "for: a = b\ncaption:")));
        assertTrue(
                problem("[@a]\n\n" + WRITTEN.replace("all-reduce", "bucket_mb")).startsWith("writeup.md:9: header"));
    }

    @Test
    void aNumberWithADimensionNeedsAUnit() throws Exception {
        assertEquals(
                "writeup.md:7: {{xl[context=128] : %.1f}}: the number is in ms; the format must have a unit, as in"
                        + " \"%.1f ms\"",
                problem(
                        "{{xl[context=128] : %.1f}} and {{xl[context=128] / xl[context=256] : %.1f}} {{xl[context=128].n : %.0f}}\n"));
        assertTrue(problem("{{1 / xl[context=128] : %.1f}}\n").contains("the format must have a unit"));
    }

    @Test
    void headersAreWordsAndNotStoredNames() throws Exception {
        String stored = """
                ```table
                from: timing[implementation=plain, size=xl, context=128]
                rows: metric
                columns: metric
                format: %.1f
                caption: Peak
                ```
                """;
        assertEquals(
                "writeup.md:7: header \"peak-memory\" is a stored name; write it in words: labels: peak-memory = …",
                problem(stored.replace("%.1f", "%.1f B").replace("context=128", "context=128, metric=peak-memory")));
        assertTrue(problem(written("| all-reduce | bucket_mb |\n|---|---|\n| 1 | 2 |\n"))
                .contains("\"bucket_mb\""));
        assertTrue(problem(stored.replace("%.1f", "%.1f B")
                        .replace("context=128", "context=128, metric=peak-memory")
                        .replace("columns: metric", "columns: implementation, metric"))
                .contains("header \"peak-memory\" is a stored name"));
        html(stored.replace("%.1f", "%.1f B\nlabels: peak-memory = peak memory")
                .replace("context=128", "context=128, metric=peak-memory"));
        html(written("| all-reduce | memory-bound kernels |\n|---|---|\n| 1 | 2 |\n"));
    }

    private static String written(String rows) {
        return "```table\n" + rows + "caption: Numbers\n```\n";
    }

    @Test
    void aTableNeedsACaption() throws Exception {
        String rows = "| a |\n|---|\n| 1 |\n";
        html(written(rows));
        assertEquals(
                "writeup.md:9: a table must be in a block ```table with a line \"caption: …\"",
                problem("Text.\n\n" + rows));
        assertEquals(
                "writeup.md:7: a table must have a line \"caption: …\"",
                problem(written(rows).replace("caption: Numbers\n", "")));
        assertEquals(
                "writeup.md:7: a table must have a line \"caption: …\"",
                problem(table("times").replace("caption: Times\n", "caption:\n")));
    }

    @Test
    void aFigureNeedsAReferenceInTheText() throws Exception {
        assertEquals(
                "writeup.md:9: no text refers to the figure: add [Figure](../figures/points.svg)",
                problem("Text.\n\n" + FIGURE));
        html("[Figure](../figures/points.svg) shows it.\n\n" + FIGURE);
    }

    @Test
    void aLinkLeadsToAHeadingThatExists() throws Exception {
        html("# One\n\n## Two words\n\n[a](#two-words) [b](#one)\n");
        assertEquals(
                "writeup.md:9: link to #two leads to no heading, table or equation", problem("# One\n\n[a](#two)\n"));
        files.put("02-two.md", "## 2 Two\n\n### Answer\n");
        files.put("03-three.md", "## 3 Three\n\n### Answer\n\n[of 3](#answer-1)\n");
        html("# One\n");
    }

    private PDDocument pdf(String text) throws Exception {
        return Loader.loadPDF(Writeup.read(folder(text)).pdf());
    }

    /** Returns the text of the PDF in the order in which it is drawn and copied. */
    private String copied(String text) throws Exception {
        try (PDDocument pdf = pdf(text)) {
            return new PDFTextStripper().getText(pdf).replaceAll("\\s+", " ");
        }
    }

    @Test
    void textIsCopiedInTheOrderInWhichItIsRead() throws Exception {
        String text =
                copied("Calls of `run` take 1.05× to 1.15× the *time* of [a](https://a.b) (`b`), `c` is **free**.\n");
        assertTrue(text.contains("Calls of run take 1.05× to 1.15× the time of a (b), c is free."), text);
    }

    @Test
    void wordsWithLigaturesCanBeSearchedAndCopied() throws Exception {
        String text = copied("The shift left after the softmax: first efficient *after*, **left**.\n");
        assertTrue(text.contains("The shift left after the softmax: first efficient after, left."), text);
    }

    @Test
    void theOutlineContainsChaptersAndQuestions() throws Exception {
        files.put("01-one.md", "## 1 One\n\n### How fast *(a, 2025)*?\n\n### Why?\n");
        files.put("02-two.md", "## 2 Two\n");
        try (PDDocument pdf = pdf("# Title\n")) {
            assertEquals(
                    List.of("Title", "-1 One", "--How fast (a, 2025)?", "--Why?", "-2 Two"),
                    titles(pdf.getDocumentCatalog().getDocumentOutline(), ""));
        }
    }

    private static List<String> titles(PDOutlineNode node, String indent) {
        var titles = new ArrayList<String>();
        for (PDOutlineItem item : node.children()) {
            titles.add(indent + item.getTitle());
            titles.addAll(titles(item, indent + "-"));
        }
        return titles;
    }

    @Test
    void longTablesContinueOnTheNextPageWithTheirHeaders() throws Exception {
        var text = new StringBuilder();
        for (int part = 0; part < 4; part++) {
            text.append("A paragraph.\n\n```table\n| left column | right column |\n|---|---|\n");
            text.append("| cell | 1 |\n".repeat(35)).append("caption: Numbers\n```\n\n");
            text.append("A line of text.\n\n".repeat(10));
            text.append(table("many" + part).replace("timing[implementation=plain, metric=forward]", "many"));
        }
        Path machine = Files.createDirectories(root.resolve("data/measurements/pretend"));
        var csv = new StringBuilder("size,context,implementation,metric,unit,n,mean,std,median,min,max,status\n");
        for (int size = 1; size <= 40; size++) {
            csv.append("s" + size + ",8,plain,forward,ms,1,1,,1,1,1,ok\n");
        }
        Files.writeString(machine.resolve("many.csv"), csv);
        try (PDDocument pdf = pdf(text.toString())) {
            var page = new PageText();
            int pages = pdf.getNumberOfPages();
            assertTrue(pages > 5, pages + " pages");
            for (int p = 1; p <= pages; p++) {
                page.read(pdf, p);
                if (page.text.contains("cell 1\n")) {
                    assertTrue(page.text.contains("left column"), page.text);
                }
                if (page.text.matches("(?s).*\ns\\d+ 1.0\n.*")) {
                    assertTrue(page.text.contains("size context 8"), page.text);
                }
                assertTrue(p == pages || page.lowest > 0.8, "page " + p + " ends at " + page.lowest);
            }
        }
    }

    /** The text of a page without its number, and where it ends, from 0 (top) to 1. */
    private static final class PageText extends PDFTextStripper {
        private static final double BOTTOM = 0.93; // of the text, above the page number

        private String text;
        private double lowest;

        void read(PDDocument pdf, int page) throws IOException {
            lowest = 0;
            setSortByPosition(true);
            setStartPage(page);
            setEndPage(page);
            text = getText(pdf);
        }

        @Override
        protected void processTextPosition(TextPosition position) {
            double y = position.getYDirAdj() / position.getPageHeight();
            if (y < BOTTOM) {
                lowest = Math.max(lowest, y);
            }
            super.processTextPosition(position);
        }
    }

    @Test
    void theOriginOfTheNumbersStatesHostAndLoad() throws Exception {
        Path machine = Files.createDirectories(root.resolve("data/measurements/pretend"));
        Files.writeString(machine.resolve("loaded.csv"), """
                size,implementation,metric,unit,n,mean,status,device,versions,commit,date,host,load
                a,plain,forward,ms,1,1,ok,GPU,java 17,abc,2026-01-01T00:00:00Z,Xeon (64 cores),0.50
                b,plain,forward,ms,1,2,ok,GPU,java 17,abc,2026-01-01T00:00:00Z,Xeon (64 cores),10.25
                """);
        String html = html("{{loaded[size=a] : %.0f ms}} {{loaded[size=b] : %.0f ms}}\n");
        assertTrue(html.contains("<td>GPU; Xeon (64 cores); load 0.5 to 10.25</td><td>java 17</td><td>abc</td>"), html);
    }

    @Test
    void twoTablesOfOneNameAreRejected() throws Exception {
        String twice = table("times") + "\n" + table("times");
        assertEquals("writeup.md:16: two tables have the name times", problem(twice));
    }

    @Test
    void theCommandWarnsOfLongChaptersAndALongWriteup() throws Exception {
        files.put("01-one.md", "## 1 One\n\n" + "A line.\n\n".repeat(1_200));
        files.put("02-two.md", "## 2 Two\n\n" + "A line.\n\n".repeat(1_200));
        files.put("appendix-02-more.md", "## Appendix 2: more\n\n" + "A line.\n\n".repeat(300));
        var out = new StringWriter();
        var err = new StringWriter();
        int code = new CommandLine(new WriteupCommand())
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err, true))
                .execute(
                        folder("# Title\n").toString(),
                        "--output",
                        root.resolve("out").toString());
        assertEquals(0, code);
        List<String> warnings = err.toString()
                .lines()
                .map(line -> line.replaceFirst("[\\d.]+ pages", "… pages"))
                .toList();
        assertEquals(
                List.of(
                        "warning: … pages in 1 One, at most 6",
                        "warning: … pages in 2 Two, at most 6",
                        "warning: … pages before the appendix, at most 60"),
                warnings,
                out.toString());
    }

    @Test
    void theOriginOfTheNumbersBelongsToTheAppendix() {
        for (String title : List.of("Appendix 2: more", MeasurementOrigins.TITLE)) {
            assertTrue(new ChapterLength(title, 1, 1).isAppendix(), title);
        }
        assertFalse(new ChapterLength("2 Two", 1, 1).isAppendix());
    }

    @Test
    void lengthsOfChaptersAddUpToThePages() throws Exception {
        files.put("01-one.md", "## 1 One\n\n" + "A line.\n\n".repeat(60));
        files.put("02-two.md", "## 2 Two\n\nShort.\n");
        Writeup writeup = Writeup.read(folder("# Title\n"));
        List<ChapterLength> lengths = ChapterLength.of(writeup.pdf());
        assertEquals(
                List.of("1 One", "2 Two"),
                lengths.stream().map(ChapterLength::title).toList());
        assertEquals(1, lengths.get(0).page());
        assertTrue(lengths.get(0).pages() > 1.5 && lengths.get(0).pages() < 3, lengths.toString());
        assertEquals((int) (lengths.get(0).pages() + 1.2), lengths.get(1).page(), 1, lengths.toString());
        assertTrue(lengths.get(1).pages() < 1, lengths.toString());
    }
}
