package cs336.numbers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MeasuredTableTest {
    @TempDir
    private Path folder;

    private MeasurementQuery numbers;

    @BeforeEach
    void measure() throws IOException {
        MadeUpMeasurements.project(folder, "");
        numbers = MeasurementQuery.of(folder.resolve("data/measurements/pretend"));
    }

    private MeasuredTable table(String block) {
        return MeasuredTable.read(block, numbers);
    }

    private String failure(String block) {
        return assertThrows(IllegalArgumentException.class, () -> table(block)).getMessage();
    }

    @Test
    void rowsAndColumnsAreCrossed() {
        var table = table("""
                from: timing[implementation=plain, metric=forward, size=xl, small]
                rows: size
                columns: context
                cells: mean ± std
                format: %.1f ms
                caption: Times; xl: {{timing[size=xl, implementation=plain, context=128, metric=forward].mean : %.0f ms}}.
                """);
        assertEquals("Times; xl: 64\u00a0ms (ms).", table.caption());
        assertEquals("""
                size   context 128  context 256  context 512
                xl      64.0 ± 0.6  128.0 ± 1.3          OOM
                small   32.0 ± 0.3   64.0 ± 0.6            –
                """, table.cells().text());
    }

    @Test
    void anIndentedLineContinuesTheLineBefore() {
        assertEquals("Times of both sizes (ms).", table("""
                from: timing[implementation=plain, metric=forward,
                  size=xl, small]
                rows: size
                columns: context
                format: %.1f ms
                caption: Times
                    of both sizes.
                """).caption());
    }

    @Test
    void labelsReplaceNamesAndValues() {
        String block = """
                from: timing[implementation=plain, metric=forward, size=xl, small]
                rows: size
                columns: context
                cells: mean
                format: %.1f ms
                """;
        assertEquals(
                """
                model  128 tokens  tokens 256  tokens 512
                XL           64.0       128.0         OOM
                small        32.0        64.0           –
                """,
                table(block + "labels: size = model; xl = XL; context = tokens; context 128 = 128 tokens\n")
                        .cells()
                        .text());
        assertTrue(failure(block + "labels: xll = XL\n").contains("xll"));
        assertTrue(failure(block + "labels: xl\n").contains("must be of the form"));
        assertTrue(failure(block + "labels: xl = XL; xl = Xl\n").contains("two labels"));
    }

    @Test
    void labelsReplaceCells() {
        String block = """
                from: timing[implementation=plain, metric=forward, size=xl, small]
                rows: size
                columns: context
                format: %.0f ms
                caption: Speed
                """;
        var table = table(block + "labels: cell 64 = slow; cell 32 = fast; context = tokens\n");
        assertEquals("""
                size   tokens 128  tokens 256  tokens 512
                xl           slow         128         OOM
                small        fast        slow           –
                """, table.cells().text());
        assertEquals("Speed", table.caption());
        assertTrue(failure(block + "labels: cell 65 = slow\n").contains("cell 65"));
    }

    @Test
    void wholeNumbersAmongDecimalsHaveNoDecimals() throws IOException {
        Files.writeString(folder.resolve("data/measurements/pretend/sizes.csv"), """
                megabytes,implementation,metric,unit,n,mean,std,median,min,max,status
                0.512,java,time,ms,3,1,0,1,1,1,ok
                1,java,time,ms,3,2,0,2,2,2,ok
                1000,java,time,ms,3,4,0,4,4,4,ok
                """);
        var table = table("""
                from: sizes[metric=time]
                rows: megabytes
                cells: median
                format: %.0f ms
                """);
        assertEquals("""
                megabytes  median
                0.512           1
                1               2
                1,000           4
                """, table.cells().text());
    }

    @Test
    void withoutColumnsEachStatisticIsAColumn() {
        var table = table("""
                from: timing[implementation=plain, metric=forward, context=128]
                rows: size
                cells: mean, std, n
                format: %.2f
                """);
        assertEquals("(ms)", table.caption());
        assertEquals(
                "size    mean   std   n\nsmall  32.00  0.32  10\nxl     64.00  0.64  10\n",
                table.cells().text());
    }

    @Test
    void overDividesByTheCorrespondingCase() {
        var table = table("""
                from: timing[implementation=plain, metric=forward]
                over: [implementation=peer]
                rows: size
                columns: context
                format: %.2f×
                """);
        assertEquals("""
                size   context 128  context 256  context 512
                small         0.50         0.50            –
                xl            0.50         0.50          OOM
                """, table.cells().text());
        assertEquals("(×)", table.caption());
    }

    @Test
    void aColumnFilteredByOverMayBeARowKey() {
        var table = table("""
                from: timing[metric=forward, context=128, size=small, xl, implementation=plain, peer]
                over: [implementation=peer]
                rows: size, implementation
                columns: context
                format: %.2f×
                """);
        assertEquals("""
                size   implementation  context 128
                small  plain                  0.50
                small  peer                   1.00
                xl     plain                  0.50
                xl     peer                   1.00
                """, table.cells().text());
    }

    @Test
    void aRowKeyWithSeveralValuesInOverIsStillCompared() {
        var table = table("""
                from: timing[implementation=plain, metric=forward, context=128]
                over: timing[implementation=peer, metric=forward, context=128, size=xl, small]
                rows: size
                columns: context
                format: %.2f×
                """);
        assertEquals("""
                size   context 128
                small         0.50
                xl            0.50
                """, table.cells().text());
    }

    @Test
    void aStatisticThatWasNotMeasuredIsADash() throws IOException {
        Path csv = folder.resolve("data/measurements/pretend/timing.csv");
        Files.writeString(csv, Files.readString(csv).replace(",32.0,0.32,", ",32.0,,"));
        numbers = MeasurementQuery.of(csv.getParent());
        var table = table("""
                from: timing[implementation=plain, metric=forward, context=128]
                rows: size
                cells: mean, std
                format: %.2f ms
                """);
        assertEquals("""
                size    mean   std
                small  32.00     –
                xl     64.00  0.64
                """, table.cells().text());
    }

    @Test
    void ambiguousCellsAreRejected() {
        assertEquals(
                "ambiguous: more than one row of timing.csv has size=small, context=128;"
                        + " filter more columns in the selection",
                failure("from: timing[metric=forward]\nrows: size\ncolumns: context\nformat: %.1f"));
    }

    @Test
    void mixedUnitsNeedAUnitInTheFormat() {
        assertTrue(failure("from: timing[size=xl, context=128, implementation=plain]\nrows: metric\nformat: %.1f")
                .startsWith("the cells are in different units (ms, B)"));
        assertTrue(failure("from: timing[size=xl, context=128, implementation=plain]\nrows: metric\nformat: %.1f s")
                .matches("cannot convert .* to s"));
    }

    @Test
    void malformedBlocksAreRejected() {
        assertTrue(failure("rows: size\nformat: %.1f").contains("\"from: …\""));
        assertTrue(failure("from: timing\nrow: size").startsWith("\"row\" is not one of caption, cells, columns"));
        assertTrue(failure("from: timing\nfrom: timing").contains("must not be given twice"));
        assertTrue(failure("from: timing\nrows: sice\nformat: %.1f").contains("no column sice"));
        assertTrue(failure("from: timing[size=xl, metric=forward, implementation=plain]\nrows: context\n"
                        + "cells: average\nformat: %.1f")
                .contains("\"average\""));
        assertTrue(failure("from: timing[implementation=plain, metric=forward]\nover: [implementation=peer]\n"
                        + "rows: size\ncolumns: context\ncells: mean ± std\nformat: %.2f")
                .startsWith("\"std\" must not be in the cells"));
    }

    @Test
    void stepsHaveValues() throws IOException {
        Files.writeString(
                folder.resolve("data/measurements/pretend/p_steps.csv"),
                "size,metric,unit,step,value\nxl,forward,ms,1,2\nxl,forward,ms,2,3\n");
        numbers = MeasurementQuery.of(folder.resolve("data/measurements/pretend"));
        assertEquals(
                "step  value\n1       2.0\n2       3.0\n",
                table("from: p_steps\nrows: step\nformat: %.1f ms").cells().text());
        assertTrue(failure("from: p_steps\nrows: step\ncells: mean\nformat: %.1f ms")
                .startsWith("no column mean"));
    }

    @Test
    void numbersFollowOtherValues() throws IOException {
        Files.writeString(
                folder.resolve("data/measurements/pretend/buckets.csv"),
                "bucket,metric,unit,n,mean,std,median,min,max,status\n"
                        + "25,total,ms,1,1,,1,1,1,ok\nnone,total,ms,1,2,,2,2,2,ok\n5,total,ms,1,3,,3,3,3,ok\n");
        numbers = MeasurementQuery.of(folder.resolve("data/measurements/pretend"));
        List<String> lines = table("from: buckets\nrows: bucket\nformat: %.0f ms")
                .cells()
                .text()
                .lines()
                .toList();
        assertEquals(
                List.of("none", "5", "25"),
                lines.stream().skip(1).map(line -> line.split(" ")[0]).toList());
    }

    @Test
    void numbersAscendInAnyOrderOfTheFile() throws IOException {
        Path csv = folder.resolve("data/measurements/pretend/timing.csv");
        List<String> lines = Files.readAllLines(csv);
        List<String> reversed = new ArrayList<>(lines.subList(1, lines.size()));
        Collections.reverse(reversed);
        reversed.add(0, lines.get(0));
        Files.write(csv, reversed);
        numbers = MeasurementQuery.of(folder.resolve("data/measurements/pretend"));
        var table = table("""
                from: timing[implementation=plain, metric=forward, size=xl, small]
                rows: size
                columns: context
                format: %.0f
                """);
        assertEquals(
                "size   context 128  context 256  context 512",
                table.cells().text().lines().findFirst().orElseThrow());
    }

    @Test
    void negativeAndVeryLargeNumbersAscend() throws IOException {
        var csv = new StringBuilder("compute,offset,implementation,metric,unit,n,mean,std,median,min,max,status\n");
        for (String compute : List.of("1e19", "3e18", "3e14")) {
            for (int offset : new int[] {0, -1, -10}) {
                csv.append(compute + "," + offset + ",plain,loss,nats,1," + -offset + ",,,,,ok\n");
            }
        }
        Files.writeString(folder.resolve("data/measurements/pretend/budgets.csv"), csv);
        assertEquals(
                """
                compute              offset -10  offset -1  offset 0
                300,000,000,000,000          10          1         0
                3e18                         10          1         0
                1e19                         10          1         0
                """,
                table("from: budgets\nrows: compute\ncolumns: offset\nformat: %.0f")
                        .cells()
                        .text());
        assertEquals(
                List.of("offset", "compute 300,000,000,000,000", "compute 3e18", "compute 1e19"),
                table("from: budgets\nrows: offset\ncolumns: compute\nformat: %.0f")
                        .cells()
                        .headers());
    }
}
