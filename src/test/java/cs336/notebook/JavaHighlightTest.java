package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class JavaHighlightTest {
    @Test
    void keywordsLiteralsAndCommentsAreHighlighted() {
        assertEquals(
                "<span class=\"keyword\">int</span> a = <span class=\"number\">0x1F</span>; <span class=\"comment\">// &lt;b&gt;</span>",
                JavaHighlight.html("int a = 0x1F; // <b>"));
        assertEquals(
                "<span class=\"string\">&quot;a \\&quot;int\\&quot; // b&quot;</span> + <span class=\"string\">'\\''</span>",
                JavaHighlight.html("\"a \\\"int\\\" // b\" + '\\''"));
        assertEquals(
                "<span class=\"string\">&quot;&quot;&quot;\nint &quot;x&quot;\n&quot;&quot;&quot;</span>;",
                JavaHighlight.html("\"\"\"\nint \"x\"\n\"\"\";"));
    }

    @Test
    void unterminatedLiteralsEndWithTheLineAndCommentsWithTheCell() {
        assertEquals(
                "<span class=\"string\">&quot;open</span>\n<span class=\"keyword\">int</span> a",
                JavaHighlight.html("\"open\nint a"));
        assertEquals("<span class=\"comment\">/* open\nint a</span>", JavaHighlight.html("/* open\nint a"));
    }

    @Test
    void longLiteralsAndCommentsDoNotExhaustTheStack() {
        String text = "x".repeat(100_000) + "\\n".repeat(10_000);
        assertEquals("<span class=\"string\">&quot;" + text + "&quot;</span>", JavaHighlight.html('"' + text + '"'));
        assertEquals("<span class=\"comment\">/*" + text + "*/</span>", JavaHighlight.html("/*" + text + "*/"));
    }
}
