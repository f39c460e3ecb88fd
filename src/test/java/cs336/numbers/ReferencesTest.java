package cs336.numbers;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class ReferencesTest {
    private static String replace(String text) {
        return References.replace(text, (line, reference) -> "<" + line + ":" + reference + ">");
    }

    @Test
    void referencesAreReplacedLineForLine() {
        assertEquals("a <1:x> b <1:y : %d>.\n\n<3:z>\n", replace("a {{x}} b {{y : %d}}.\n\n{{z}}\n"));
    }

    @Test
    void codeAndEscapedBracesAreUntouched() {
        for (String text : List.of(
                "`{{x}}`",
                "``a ` {{x}}``",
                "`a `` {{x}}`",
                "```java\nnew int[][] {{1}};\n```",
                "~~~\n{{x}}\n```\n{{y}}\n~~~",
                "````\n```\n{{x}}\n````")) {
            assertEquals(text, replace(text));
        }
        assertEquals("{{x}}", replace("\\{{x}}"));
        assertEquals("```\n{{x}}\n```\n<4:y>", replace("```\n{{x}}\n```\n{{y}}"));
        assertEquals("a ` <1:x>", replace("a ` {{x}}"), "a backtick that is not closed is text");
    }

    @Test
    void aReferenceMayContinueOnTheNextLines() {
        assertEquals("a <1:x / y> and\n<3:z>.\nb <4:w>", replace("a {{x /\n    y}} and\n{{z}}.\nb {{w}}"));
        assertEquals("(<1:x / y : %d>)", replace("({{x\n/ y\n: %d}})"));
    }

    @Test
    void anUnclosedReferenceIsPassedAsNull() {
        var found = new ArrayList<String>();
        References.replace("a {{x\n\n}} b", (line, reference) -> {
            found.add(line + " " + reference);
            return "";
        });
        assertEquals(List.of("1 null"), found);
    }
}
