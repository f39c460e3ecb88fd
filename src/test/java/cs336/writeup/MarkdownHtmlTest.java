package cs336.writeup;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MarkdownHtmlTest {
    @TempDir
    private Path folder;

    private String html(String markdown) {
        return new MarkdownHtml(folder).fragment(markdown);
    }

    private int formulas(String markdown) {
        return html(markdown).split("<svg ", -1).length - 1;
    }

    @Test
    void dollarsEncloseFormulas() {
        assertEquals(1, formulas("the loss $\\mathcal{L}(\\theta)$ falls"));
        assertEquals(2, formulas("$a$ and $b$"));
        assertEquals(1, formulas("$x_1 * y * z_2$"));
        assertEquals(1, formulas("(inline $$x$$)"));
        assertEquals(1, formulas("a cost of \\$5 for $n$ tokens"));
        assertFalse(html("$x_1 * y * z_2$").contains("<em>"));
        assertTrue(html("$a < b$").contains("aria-label=\"a &lt; b\""));
    }

    @Test
    void noLineBreaksBetweenAnElementAndAdjacentPunctuation() {
        String link = "<a href=\"#b\">b</a>";
        assertEquals("<p>a <span class=\"whole\">(" + link + ").</span> c</p>\n", html("a ([b](#b)). c"));
        assertEquals("<p>a <span class=\"whole\">(" + link + "</span> c)</p>\n", html("a ([b](#b) c)"));
        assertEquals("<p>a <span class=\"whole\"><code>b</code>,</span> c</p>\n", html("a `b`, c"));
        assertTrue(html("a $b$: $c$ d")
                .matches("(?s)<p>a <span class=\"whole\"><svg .*</svg>:</span> <svg .*</svg> d</p>\n"));
        assertEquals(2, html("$a$ b $c$. d $e$, f").split("class=\"whole\"", -1).length - 1);
        assertTrue(html("$a$ b $c$.").startsWith("<p><svg "), "each formula is matched separately");
        assertEquals("<p><span class=\"whole\"><em>a b</em>:</span> c</p>\n", html("*a b*: c"));
        assertEquals("<p>a " + link + " c.</p>\n", html("a [b](#b) c."));
        assertFalse(html("a `" + "b".repeat(31) + "`, c").contains("span"), "too long to forbid a line break");
        assertFalse(html("```\n(b).\n```\n").contains("span"));
    }

    @Test
    void noLineBreaksInsideOptions() {
        String option = "<span class=\"whole\">--b-c</span>";
        assertEquals("<p><code>a " + option + " d " + option + "</code></p>\n", html("`a --b-c d --b-c`"));
        assertEquals("<p><code>" + option + " d</code></p>\n", html("`--b-c d`"));
        assertFalse(html("a --b and `c-d`").contains("span"));
        assertTrue(html("```\na --b-c\n```\n").contains("a " + option));
        assertEquals("<p><code><span class=\"whole\">./a</span> b</code></p>\n", html("`./a b`"));
        assertEquals("<p><code><span class=\"whole\">a.b</span></code> c</p>\n", html("`a.b` c"));
    }

    @Test
    void noLineBreaksBetweenANumberAndItsSignOrRate() {
        assertEquals("<p>a <span class=\"whole\">0.66×</span> b</p>\n", html("a 0.66× b"));
        assertEquals("<p>a <span class=\"whole\">(47 %).</span></p>\n", html("a (47 %)."));
        assertEquals("<p>a <span class=\"whole\">(2.7B)</span> b</p>\n", html("a (2.7B) b"));
        assertEquals("<p>a <span class=\"whole\">127\u00a0TFLOP/s</span></p>\n", html("a 127\u00a0TFLOP/s"));
        assertFalse(html("a 4 × 128, 3 b and 5").contains("span"));
        assertFalse(html("a [b](c \"0.66× or 47 %\")").contains("span"), "inside a tag");
    }

    @Test
    void moneyIsNotAFormula() {
        for (String text : new String[] {
            "between $5 and $6", "$5–$6 an hour", "it costs $5.", "US$ 5 and US$ 6", "$ x $", "\\$a\\$", "5$", "$"
        }) {
            assertEquals(0, formulas(text), text);
        }
        assertEquals("<p>between $5 and $6</p>\n", html("between $5 and $6"));
    }

    @Test
    void codeIsUntouched() {
        assertEquals("<p><code>$HOME/$USER$</code></p>\n", html("`$HOME/$USER$`"));
        assertEquals(0, formulas("a $5 `b$`"));
        assertEquals("<pre><code>$x$\n$$\ny\n$$\n</code></pre>\n", html("```\n$x$\n$$\ny\n$$\n```\n"));
        assertEquals("<pre><code>$x$\n</code></pre>\n", html("    $x$\n"));
    }

    @Test
    void linesOfADisplayFormulaMayLookLikeAList() {
        String html = html("where\n\n$$\na = b\n- c\n+ d\n$$\n\nholds");
        assertTrue(html.contains("<div class=\"display\"><svg "), html);
        assertTrue(html.contains("aria-label=\"a = b - c + d\""), html);
        assertFalse(html.contains("<ul>"));
        assertTrue(html.endsWith("<p>holds</p>\n"));
        assertEquals(1, formulas("$$x^2$$\n"));
    }

    @Test
    void aFormulaWithADescenderExtendsBelowTheBaseline() {
        String above = html("$x$").replaceAll("(?s).*vertical-align:(-?[\\d.]+)em.*", "$1");
        String below = html("$\\frac{a}{b}$").replaceAll("(?s).*vertical-align:(-?[\\d.]+)em.*", "$1");
        assertTrue(Double.parseDouble(below) < Double.parseDouble(above) - 0.2, above + " " + below);
    }

    @Test
    void invalidTexIsReportedWithItsLine() {
        var error = assertThrows(MarkdownException.class, () -> html("one\n\ntwo\n$\\frac{a$ three"));
        assertTrue(error.line() == 3 || error.line() == 4, "line " + error.line());
        assertTrue(error.getMessage().startsWith("formula \\frac{a: "), error.getMessage());
        assertThrows(MarkdownException.class, () -> html("$}$"));
        assertTrue(assertThrows(MarkdownException.class, () -> html("a\n\n$$\nx\n"))
                .getMessage()
                .contains("no closing $$"));
        assertEquals(
                3,
                assertThrows(MarkdownException.class, () -> html("one\n\n$$\n\\nothing x\n$$\n"))
                        .line());
    }

    @Test
    void imagesAreInlined() throws IOException {
        Files.writeString(folder.resolve("a b.svg"), "<svg xmlns=\"http://www.w3.org/2000/svg\"/>");
        assertTrue(html("![x](<a b.svg>)").contains("src=\"data:image/svg+xml;base64,PHN2"));
        assertTrue(html("![x](a%20b.svg)").contains("src=\"data:image/svg+xml;base64,PHN2"));
        assertTrue(html("![x](data:image/png;base64,AAAA)").contains("src=\"data:image/png;base64,AAAA\""));
        String both = html("![x](data:image/png;base64,AAAA) ![y](data:image/png;base64,BBBB)");
        assertTrue(both.indexOf("base64,AAAA") < both.indexOf("base64,BBBB"), both);
        assertTrue(assertThrows(MarkdownException.class, () -> html("\n![x](b.svg)"))
                .getMessage()
                .startsWith("missing image b.svg"));
        assertThrows(MarkdownException.class, () -> html("![x](https://example.org/a.svg)"));
        assertThrows(MarkdownException.class, () -> html("![x](a.exe)"));
    }

    @Test
    void tablesAndHeadingIds() {
        assertTrue(html("| a | b |\n|---|--:|\n| 1 | $x$ |\n").contains("<td align=\"right\"><svg "));
        assertEquals("<h2 id=\"warm-up-1\">Warm-up 1</h2>\n", html("## Warm-up 1"));
        assertTrue(html("## Of `fsdp` units").contains("<h2 id=\"of-fsdp-units\">"));
        assertEquals("<h2 id=\"a\">A</h2>\n<h2 id=\"a-1\">A</h2>\n", html("## A\n\n## A"));
    }

    @Test
    void addressesThatAreNoFileNamesAreReportedWithTheirLine() {
        for (String address : new String[] {"a%zz.svg", "a%00.svg", "%.svg"}) {
            var e = assertThrows(MarkdownException.class, () -> html("a\n\n![x](" + address + ")"));
            assertEquals(3, e.line());
            assertTrue(e.getMessage().startsWith("image " + address + " is not a file name: "), e.getMessage());
        }
    }

    @Test
    void aFormulaThatIsNestedTooDeeplyIsReported() {
        String deep = "\\frac{".repeat(5000) + "1" + "}{2}".repeat(5000);
        var e = assertThrows(MarkdownException.class, () -> html("$" + deep + "$"));
        assertTrue(e.getMessage().startsWith("a formula is not valid TeX"), e.getMessage());
    }
}
