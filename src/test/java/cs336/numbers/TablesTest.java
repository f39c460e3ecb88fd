package cs336.numbers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

class TablesTest {
    private static final Table TABLE = Table.create(
            "made up",
            StringColumn.create("name", "a|b", "<c>"),
            IntColumn.create("n", 7, 123456),
            DoubleColumn.create("ms", 12.34567, Double.NaN));

    @Test
    void markdownIsAlignedAndEscaped() {
        assertEquals("""
                | name |       n |    ms |
                | ---- | ------: | ----: |
                | a\\|b |       7 | 12.35 |
                | <c>  | 123,456 |     – |
                """, Tables.markdown(TABLE));
    }

    @Test
    void htmlIsEscapedAndNumbersAreMarked() {
        String html = Tables.html(TABLE, Map.of("ms", "%.1f"));
        assertTrue(html.contains("<td>&lt;c&gt;</td><td class=\"number\">123,456</td>"), html);
        assertTrue(html.contains("<td class=\"number\">12.3</td>"), html);
    }

    @Test
    void aTableOfManyColumnsIsMarkedAsWide() {
        Table table = Table.create("made up");
        for (int column = 1; column <= 9; column++) {
            table.addColumns(IntColumn.create("context " + column, 1));
        }
        assertTrue(Tables.html(table).startsWith("<table>"));
        table.addColumns(IntColumn.create("context 10", 1));
        assertTrue(Tables.html(table).startsWith("<table class=\"wide\">"));
    }

    @Test
    void aTableOfLongWordsIsMarkedAsWideAndOneOfLongTextsIsNot() {
        String text = "word ".repeat(40);
        assertTrue(Tables.html(Table.create("made up", StringColumn.create("a", text), StringColumn.create("b", text)))
                .startsWith("<table>"));
        String word = "w".repeat(50);
        assertTrue(Tables.html(Table.create("made up", StringColumn.create("a", word), StringColumn.create("b", word)))
                .startsWith("<table class=\"wide\">"));
    }

    @Test
    void aTableOfLongNumbersIsMarkedAsWide() {
        List<String> headers = Collections.nCopies(9, "context 65536");
        List<Boolean> numbers = Collections.nCopies(9, true);
        assertTrue(new TextTable(headers, numbers, List.of(Collections.nCopies(9, "1.2 ± 0.3")))
                .html()
                .startsWith("<table>"));
        String longer = "121.21 ± 10.11";
        assertTrue(new TextTable(headers, numbers, List.of(Collections.nCopies(9, longer)))
                .html()
                .startsWith("<table class=\"wide\">"));
        assertTrue(new TextTable(headers, Collections.nCopies(9, false), List.of(Collections.nCopies(9, longer)))
                .html()
                .startsWith("<table>"));
    }

    @Test
    void textIsAligned() {
        assertEquals("""
                name        n     ms
                a|b         7  12.35
                <c>   123,456      –
                """, Tables.aligned(TABLE));
    }

    @Test
    void aFormatForAnUnknownColumnIsRejected() {
        assertThrows(IllegalArgumentException.class, () -> Tables.html(TABLE, Map.of("s", "%.1f")));
    }

    @Test
    void numbersHaveFourDigits() {
        Table table = Table.create("made up", DoubleColumn.create("x", 1234.56, 0.00012345, 1e-9, 1e6, -0.5));
        assertEquals(
                "x\n1,235\n0.0001234\n1.000e-09\n1,000,000\n-0.5\n",
                Tables.aligned(table).replace(" ", ""));
    }

    @Test
    void infiniteNumbersHaveASignAndYearsNoSeparators() {
        Table table = Table.create(
                "made up",
                IntColumn.create("year", 2024, 2025),
                DoubleColumn.create("x", Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY));
        assertEquals("year x\n2024 ∞\n2025 −∞\n", Tables.aligned(table).replaceAll(" +", " "));
    }

    private record TableCell(
            String name, @Header("time (ms)") Double ms, int count) {}

    @Test
    void recordsBecomeATable() {
        Table table = Tables.of(TableCell.class, List.of(new TableCell("a", 1.5, 2), new TableCell("b", null, 3)));
        assertEquals(List.of("name", "time (ms)", "count"), table.columnNames());
        assertEquals(1.5, table.doubleColumn("time (ms)").get(0));
        assertTrue(table.column("time (ms)").isMissing(1));
        assertEquals("b", table.stringColumn("name").get(1));
        assertEquals(3, table.intColumn("count").get(1));
    }
}
