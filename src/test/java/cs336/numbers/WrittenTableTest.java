package cs336.numbers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class WrittenTableTest {
    private static final String HEAD = "| size | time |\n|---|---|\n";

    private final List<Integer> lines = new ArrayList<>();

    private WrittenTable read(String block) {
        return WrittenTable.read(block, (line, reference) -> {
            lines.add(line);
            return "<" + reference + ">";
        });
    }

    private String failure(String rows) {
        return assertThrows(IllegalArgumentException.class, () -> read(HEAD + rows))
                .getMessage();
    }

    @Test
    void aTableOfRowsIsWritten() {
        assertTrue(WrittenTable.isWritten("caption: Times\n| a |\n|---|\n"));
        assertFalse(WrittenTable.isWritten("from: timing[a=b]\ncells: mean | std\n"));
    }

    @Test
    void rowsRepeatForEachListOfValues() {
        WrittenTable table = read("""
                | program | time |
                |---|---|
                for: program | code | tokens =
                  eager | plain | 128;
                  CUDA graph, fused | plain+graph | 8192
                | {program}, {tokens} tokens |
                  {{{code}[tokens={tokens}].median : %.1f ms}} |
                | none | – |
                caption: Times of two
                  programs, {{n}} runs each.
                name: times
                """);
        assertEquals("times", table.name());
        assertEquals("Times of two programs, <n> runs each.", table.caption());
        assertEquals("""
                | program | time |
                |---|---|
                | eager, 128 tokens | <plain[tokens=128].median : %.1f ms> |
                | CUDA graph, fused, 8,192 tokens | <plain+graph[tokens=8192].median : %.1f ms> |
                | none | – |""", table.markdown());
        assertEquals(List.of(6, 6, 9), lines, "lines of the row and the caption in the block");
    }

    @Test
    void valuesReplaceOnlyTheNamesOfTheirRow() {
        assertEquals(
                HEAD + "| xl | $x_{i}$ |\n| {size} | 2 |",
                read(HEAD + "for: size = xl\n| {size} | $x_{i}$ |\n| {size} | 2 |")
                        .markdown());
    }

    @Test
    void malformedBlocksAreRejected() {
        assertTrue(failure("form: x\n").startsWith("\"form\" is neither a row nor one of caption, for, name"));
        assertEquals("name must not be given twice", failure("name: a\nname: b\n"));
        assertEquals("a row must follow \"for: size = a\"", failure("for: size = a\n"));
        assertEquals("for must not be given twice", failure("for: size = a\nfor: size = b\n| {size} | 1 |\n"));
        assertTrue(failure("for: size\n| {size} | 1 |\n").startsWith("\"for: size\" must be of the form"));
        assertEquals(
                "the row after \"for\" does not contain {pass}", failure("for: size | pass = a | b\n| {size} | 1 |\n"));
        assertEquals(
                "\"b\" must have 2 values: size | pass",
                failure("for: size | pass = a | step; b\n| {size} | {pass} |\n"));
        assertEquals("\"for\" has a name twice: size | size", failure("for: size | size = a | b\n| {size} | 1 |\n"));
    }
}
