package cs336.numbers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Table;

class MeasurementQueryTest {
    @TempDir
    private Path folder;

    private MeasurementQuery numbers;

    @BeforeEach
    void measure() throws IOException {
        MadeUpMeasurements.project(folder, "");
        numbers = MeasurementQuery.of(folder.resolve("data/measurements/pretend"));
    }

    private String failure(String reference) {
        return assertThrows(IllegalArgumentException.class, () -> numbers.text(reference))
                .getMessage();
    }

    @Test
    void aReferenceIsOneCell() {
        assertEquals(
                64,
                numbers.value(
                        "timing",
                        Map.of("size", "xl", "context", 128, "implementation", "plain", "metric", "forward"),
                        "mean"));
        assertEquals(
                "0.64\u00a0ms",
                numbers.text("timing[size=xl, context=128, implementation=plain, metric=forward].std : %.2f ms"));
        assertEquals("10", numbers.text("timing[size=xl, context=128, implementation=plain, metric=forward].n : %d"));
        assertEquals("3.0\u00a0GiB", numbers.text("timing[metric=peak-memory] : %.1f GiB"));
    }

    @Test
    void originNamesTheDevicesAndCommitsOfTheRowsUsedThroughIt() throws IOException {
        assertEquals("", numbers.origin());
        MeasurementQuery first = numbers.withOwnOrigin();
        first.text("timing[size=xl, context=128, implementation=plain, metric=forward].std : %.2f ms");
        assertEquals("Pretend GPU, commit abc", first.origin());
        assertEquals("Pretend GPU, commit abc", numbers.origin());
        assertEquals(1, numbers.used().values().iterator().next().rowCount());

        Path csv = folder.resolve("data/measurements/pretend/timing.csv");
        Path other = folder.resolve("data/measurements/pretend/other.csv");
        String header = Files.readString(csv).lines().findFirst().orElseThrow();
        String row = "xl,128,plain,forward,ms,1,2,,,,,ok,%s,java 17,%s,2026-01-01T00:00:00Z\n";
        Files.writeString(
                other, header + "\n" + row.formatted("Pretend GPU", "def") + row.formatted("2 × Pretend GPU", "abc"));
        Files.writeString(
                other.resolveSibling("other_steps.csv"),
                "size,context,implementation,metric,unit,step,value\nxl,128,plain,forward,ms,1,2\n");
        MeasurementQuery second = numbers.withOwnOrigin();
        second.select("other_steps[size=xl]");
        assertEquals("2 × Pretend GPU, commit abc\nPretend GPU, commit def", sorted(second.origin()));
        second.select("timing[size=small]");
        assertEquals("2 × Pretend GPU, commit abc\nPretend GPU, commits abc, def", sorted(second.origin()));
        assertEquals("Pretend GPU, commit abc", first.origin());
    }

    private static String sorted(String lines) {
        return lines.lines().sorted().collect(Collectors.joining("\n"));
    }

    @Test
    void namesAreRefinedAndValuesComputed() {
        numbers.define("ours", "timing[implementation=plain, metric=forward, size=small, xl]");
        numbers.define("xl", "ours[size=xl]");
        numbers.define("ratio", "xl[context=256] / ours[size=small, context=256]");
        numbers.define("parameters", 1_998_235_200.0, "");
        assertEquals("128\u00a0ms", numbers.text("xl[context=256] : %.0f ms"));
        assertEquals("2.0×", numbers.text("ratio : %.1f×"));
        assertEquals("1,998,235,200", numbers.text("parameters : %,d"));
        assertEquals("50%", numbers.text("(xl[context=256] - xl[context=128]) / xl[context=256] : %.0f%%"));
        assertEquals("−4.0", numbers.text("1 - 2*(3 - .5e1/4*2 + 2) : %.1f"));
        assertThrows(IllegalArgumentException.class, () -> numbers.define("xl", "timing"));
        assertThrows(IllegalArgumentException.class, () -> numbers.define("a b", "timing"));
    }

    @Test
    void aReferenceDoesNotReplaceAFilterOfAName() {
        numbers.define("ours", "timing[implementation=plain, metric=forward, context=128, 256]");
        assertEquals("64\u00a0ms", numbers.text("ours[size=xl, context=128] : %.0f ms"));
        assertTrue(failure("ours[implementation=peer, size=xl] : %.0f ms")
                .startsWith("\"ours\" already has the filter implementation=plain"));
        assertTrue(
                failure("ours[context=512] : %.0f ms").startsWith("\"ours\" already has the filter context=128, 256"));
        assertTrue(failure("ours[implementation=plain] : %.0f ms").startsWith("\"ours\" already has the filter"));
    }

    @Test
    void aReferenceMaySelectTheSameCaseOfAnotherMachine() throws IOException {
        Path csv = folder.resolve("data/measurements/pretend/timing.csv");
        Path other = Files.createDirectories(folder.resolve("data/measurements/other"));
        Files.writeString(other.resolve("timing.csv"), Files.readString(csv).replace(",10,64.0,", ",10,48.0,"));
        numbers.define("xl", "timing[size=xl, implementation=plain, metric=forward]");
        assertEquals("64\u00a0ms", numbers.text("xl[context=128].mean : %.0f ms"));
        assertEquals("48\u00a0ms", numbers.text("xl@other[context=128].mean : %.0f ms"));
        String message = failure("xl@other[context=7] : %.0f ms");
        assertTrue(message.startsWith("no row matches timing@other["), message);
    }

    @Test
    void filtersCompareNumbersInAnyNotation() {
        for (String equal : new String[] {"9e3", "9000.0", "+9000", "9000"}) {
            assertTrue(MeasurementQuery.same("9000", equal), equal);
        }
        for (String different : new String[] {"9", "900", "nine", ""}) {
            assertFalse(MeasurementQuery.same("9000", different), different);
        }
    }

    @Test
    void aDefinitionUsesOnlyExistingNamesFilesAndColumns() {
        assertTrue(definitionFailure("first", "second[size=xl]")
                .endsWith("second.csv, and no name \"second\" is defined so far"));
        numbers.define("second", "timing[size=xl]");
        assertTrue(definitionFailure("timing2", "timing[sice=xl]").startsWith("no column sice in timing.csv"));
        assertTrue(definitionFailure("second", "timing").contains("already defined"));
    }

    private String definitionFailure(String name, String expression) {
        return assertThrows(IllegalArgumentException.class, () -> numbers.define(name, expression))
                .getMessage();
    }

    @Test
    void ownNamesAreNotDefinedElsewhere() {
        numbers.define("xl", "timing[size=xl]");
        MeasurementQuery own = numbers.withOwnNames();
        own.define("ours", "xl[implementation=plain, metric=forward]");
        assertEquals("64\u00a0ms", own.text("ours[context=128] : %.0f ms"));
        assertEquals(1, numbers.used().values().iterator().next().rowCount());
        assertTrue(failure("ours[context=128] : %.0f ms").startsWith("no measurements"));
        assertThrows(IllegalArgumentException.class, () -> own.define("xl", "timing"));
    }

    @Test
    void numbersMayHaveUnits() {
        numbers.define("peak", "989e12 FLOP / 1 s");
        numbers.define("work", "4 * 1024 * 1024 * 64 FLOP");
        assertEquals("989\u00a0TFLOP/s", numbers.text("peak : %.0f TFLOP/s"));
        assertEquals("0.5\u00a0ms", numbers.text("peak * 0.5 ms / peak : %.1f ms"));
        assertEquals("0.5\u00a0ms", numbers.text("peak * 5e-4 s / peak : %.1f ms"));
        assertEquals("268.4\u00a0TFLOP/s", numbers.text("work / 1 us : %.1f TFLOP/s"));
        assertEquals("27.1%", numbers.text("work / 0.001 ms / peak : %.1f%%"));
        assertTrue(failure("work : %.0f ms").contains(" to ms"));
    }

    @Test
    void theErrorForAMissingRowListsExistingValues() {
        assertEquals(
                "no row matches timing[size=xl, context=64]: context is 128, 256, 512 there",
                failure("timing[size=xl, context=64] : %.1f"));
        assertTrue(failure("nothing[size=xl] : %.1f").startsWith("no measurements "));
        assertTrue(failure("timing@other[size=xl] : %.1f").contains("other"));
        assertTrue(failure("timing[sice=xl] : %.1f").startsWith("no column sice in timing.csv; it has size, context"));
        assertTrue(failure("timing[metric=peak-memory].mode : %.1f").contains(": no column mode"));
    }

    @Test
    void theErrorForAnAmbiguousReferenceListsDifferences() {
        assertEquals(
                "ambiguous: 2 rows match timing[size=xl, context=256]; they differ in implementation (plain, peer)",
                failure("timing[size=xl, context=256] : %.1f"));
    }

    @Test
    void theErrorForAnAmbiguousReferenceListsFewValuesOfAColumn() throws IOException {
        var csv = new StringBuilder("size,metric,unit,mean\n");
        for (int i = 1; i <= 8; i++) {
            csv.append("s").append(i).append(",total,ms,1\n");
        }
        Files.writeString(folder.resolve("data/measurements/pretend/sizes.csv"), csv);
        assertEquals(
                "ambiguous: 8 rows match sizes[metric=total];"
                        + " they differ in size (s1, s2, s3, s4, s5, s6, … 8 values)",
                failure("sizes[metric=total] : %.1f"));
    }

    @Test
    void decimalParametersAreWrittenInPlainNotation() {
        double[] values = {1e23, 25, 0.5, -1.25e-5, 3e8, 0, 0.1};
        Table table = Table.create(DoubleColumn.create("x", values).appendMissing());
        List<String> written = IntStream.range(0, table.rowCount())
                .mapToObj(row -> MeasurementQuery.cell(table, row, "x"))
                .toList();
        assertEquals(List.of("1e23", "25", "0.5", "-0.0000125", "300000000", "0", "0.1", ""), written);
        for (int i = 0; i < values.length; i++) {
            assertEquals(values[i], Double.parseDouble(written.get(i)));
        }
    }

    @Test
    void theErrorForARowWithoutNumbersNamesItsStatus() {
        assertEquals(
                "timing[size=xl, context=512]: the row has no numbers; its status is oom",
                failure("timing[size=xl, context=512] : %.1f"));
        assertEquals(
                "timing[metric=peak-memory]: column std of the row has no number",
                failure("timing[metric=peak-memory].std : %.1f"));
        assertEquals(
                "timing[metric=peak-memory]: column unit of the row has no number",
                failure("timing[metric=peak-memory].unit : %.1f"));
    }

    @Test
    void syntaxErrorsNameTheirPosition() {
        assertTrue(failure("timing[metric=peak-memory]").startsWith("no format"));
        assertTrue(failure("timing[metric=peak-memory : %.1f").startsWith("']' is missing"));
        assertTrue(failure("timing[metric] : %.1f").startsWith("\"metric\" is not of the form column=value"));
        assertTrue(failure("timing[metric=] : %.1f").contains("not of the form"));
        assertTrue(failure("timing[size=xl, size=small] : %.1f").startsWith("column size has two filters"));
        assertTrue(failure("(timing[metric=peak-memory] : %.1f").startsWith("')' is missing"));
        assertTrue(failure("timing[metric=peak-memory] 3 : %.1f").startsWith("\"3\" is not expected at character 28"));
        assertTrue(failure(" : %.1f").startsWith("a name or number is missing"));
        assertTrue(failure("1.2.3 : %.1f").contains("\"1.2.3\" is not a number"));
        assertTrue(failure("1 / 0 : %.1f").contains("division by zero"));
    }

    @Test
    void severalValuesOfOneColumnSelectSeveralRows() {
        var table = numbers.select("timing[context=128, 256, implementation=plain, metric=forward]");
        assertEquals(4, table.rowCount());
        assertThrows(IllegalArgumentException.class, () -> numbers.select("timing[size=medium]"));
    }

    @Test
    void columnsThatAreReadAsNumbersMustContainNumbers() {
        String selection = "timing[implementation=plain, metric=forward]";
        assertEquals(
                numbers.select(selection).rowCount(),
                numbers.selectWithNumbers(selection, "context").rowCount());
        String file = folder.resolve("data/measurements/pretend/timing.csv").toString();
        assertEquals(
                file + ", line 2: size must be a number, not 'small'",
                assertThrows(IllegalArgumentException.class, () -> numbers.selectWithNumbers(selection, "size"))
                        .getMessage());
        String missing = assertThrows(
                        IllegalArgumentException.class, () -> numbers.selectWithNumbers(selection, "bucket_mb"))
                .getMessage();
        assertTrue(missing.startsWith("no column bucket_mb in timing.csv"), missing);
    }

    @Test
    void theMedianRoundHasTheMiddleMedianOfItsCase() throws IOException {
        Files.writeString(folder.resolve("data/measurements/pretend/turns.csv"), """
                context,round,implementation,metric,unit,n,mean,std,median,min,max,status
                128,1,ours,forward,ms,9,1,,7,1,8,ok
                128,2,ours,forward,ms,9,2,,30,2,40,ok
                128,3,ours,forward,ms,9,3,,8,3,9,ok
                128,1,peer,forward,ms,9,4,,10,4,11,ok
                256,1,ours,forward,ms,9,5,,5,5,5,ok
                1024,1,ours,forward,ms,,,,,,,oom
                1024,2,ours,forward,ms,9,1,,10,1,8,ok
                1024,3,ours,forward,ms,9,1,,12,1,8,ok
                1024,4,ours,forward,ms,9,1,,11,1,8,ok
                1024,5,ours,forward,ms,,,,,,,oom
                256,2,ours,forward,ms,9,6,,6,6,6,ok
                512,1,ours,forward,ms,,,,,,,oom
                512,2,ours,forward,ms,,,,,,,oom
                """);
        numbers.define("middle", "turns[round=median]");
        assertEquals("8.0\u00a0ms", numbers.text("middle[context=128, implementation=ours].median : %.1f ms"));
        assertEquals("9.0\u00a0ms", numbers.text("middle[context=128, implementation=ours].max : %.1f ms"));
        assertEquals("30.0\u00a0ms", numbers.text("turns[context=128, implementation=ours, round=2].median : %.1f ms"));
        assertEquals(
                List.of(3, 1),
                numbers.select("middle[context=128]").intColumn("round").asList());
        assertEquals("6.0\u00a0ms", numbers.text("middle[context=256].median : %.1f ms"));
        assertEquals(
                "11.0\u00a0ms", numbers.text("middle[context=1024].median : %.1f ms"), "failed rounds do not count");
        assertEquals(
                1,
                numbers.select("middle[context=512]").rowCount(),
                "a table shows the status of a case that ran out of memory");
        assertEquals(
                "turns[round=median, context=512]: the row has no numbers; its status is oom",
                failure("middle[context=512].median : %.1f"));
    }

    @Test
    void theErrorForAMissingFolderListsExistingOnes() {
        var error = assertThrows(
                IllegalArgumentException.class, () -> MeasurementQuery.of(folder.resolve("data/measurements/h200")));
        assertTrue(error.getMessage().endsWith("existing folders: pretend"), error.getMessage());
    }

    @Test
    void proseResolvesReferencesAndTables() {
        String prose = numbers.prose("""
                It took {{timing[size=xl, context=128, implementation=plain, metric=forward] : %.0f ms}}, not `{{code}}`.

                ```table
                from: timing[implementation=plain, metric=forward]
                rows: size
                columns: context
                cells: mean
                format: %.0f ms
                caption: Made up
                ```
                """);
        assertTrue(prose.startsWith("It took 64\u00a0ms, not `{{code}}`."), prose);
        assertTrue(prose.contains("| size"), prose);
        assertTrue(prose.contains("Made up"), prose);
        assertTrue(!prose.contains("```"), prose);
    }

    @Test
    void proseResolvesWrittenTables() {
        String prose = numbers.prose("""
                ```table
                | size | time |
                |---|---|
                for: size = small; xl
                | {size} | {{timing[size={size}, context=128, implementation=plain, metric=forward] : %.0f ms}} |
                caption: Made up
                ```
                """);
        assertEquals("| size | time |\n|---|---|\n| small | 32\u00a0ms |\n| xl | 64\u00a0ms |\n\nMade up\n\n", prose);
    }

    @Test
    void unresolvedReferencesInProseNameTheirLine() {
        var error =
                assertThrows(IllegalArgumentException.class, () -> numbers.prose("one\n{{timing[size=xs] : %.0f}}"));
        assertTrue(error.getMessage().startsWith("line 2, {{timing[size=xs] : %.0f}}: "), error.getMessage());
    }

    @Test
    void deeplyNestedParenthesesAreAnError() {
        String deep = "(".repeat(100_000) + "1" + ")".repeat(100_000);
        var e = assertThrows(IllegalArgumentException.class, () -> numbers.text(deep + " : %d"));
        assertTrue(e.getMessage().startsWith("more than 100 nested parentheses"), e.getMessage());
        assertEquals("1", numbers.text("(".repeat(100) + "1" + ")".repeat(100) + " : %d"));
    }

    @Test
    void infiniteNumbersHaveNoDigits() {
        numbers.define("infinite", Double.POSITIVE_INFINITY, "ms");
        assertEquals("Infinity\u00a0ms", numbers.text("infinite : %.1f ms"));
        assertThrows(IllegalArgumentException.class, () -> numbers.text("infinite : %d"));
        assertThrows(IllegalArgumentException.class, () -> numbers.text("1e19 : %d"));
    }

    @Test
    void damagedMeasurementsAreReportedWithFileAndLine() throws IOException {
        Path damaged = Files.writeString(
                folder.resolve("data/measurements/pretend/damaged.csv"), "a,implementation,mean\nx,y,z\n");
        var e = assertThrows(UncheckedIOException.class, () -> numbers.table("damaged"));
        assertEquals(
                damaged + ", line 2: mean must be a number, not 'z'",
                e.getCause().getMessage());
    }
}
