package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tech.tablesaw.api.ColumnType;
import tech.tablesaw.api.Table;

class MeasurementsTest {
    static final Provenance HERE =
            new Provenance("h200", "NVIDIA H200, \"SXM\"", "pytorch 2.10.0", "1234567", "2026-11-20T10:00:00Z");
    static final Metric TOTAL = Metric.ms("total"), PEAK = Metric.bytes("peak-memory");

    @TempDir
    Path folder;

    Measurements measurements;

    @BeforeEach
    void open() {
        measurements = Measurements.of(folder, "h200", "benchmarking_script");
    }

    static Case size(String size, int context) {
        return Case.of(Workload.class, "plain")
                .with("size", size)
                .with("context", context)
                .yields(TOTAL, PEAK);
    }

    static List<Measurement> measured(double... ms) {
        return List.of(
                new Measurement(TOTAL, Summary.of(ms), Status.OK),
                Measurement.of(Samples.once(PEAK, 137_438_953_471.0)));
    }

    @Test
    void storedRowsAreReadBackWithTheirTypes() throws IOException {
        measurements.put(size("2.7B", 128), measured(1.5, 2.25, 1.0 / 3), HERE);
        measurements.put(size("xl", 1024), List.of(Measurement.missing(TOTAL, Status.OOM)), HERE);

        Table table = measurements.table();
        assertEquals(
                List.of(
                        "size",
                        "context",
                        "implementation",
                        "metric",
                        "unit",
                        "n",
                        "mean",
                        "std",
                        "median",
                        "min",
                        "max",
                        "status",
                        "device",
                        "versions",
                        "commit",
                        "date"),
                table.columnNames());
        assertEquals(folder.resolve("h200/benchmarking_script.csv"), measurements.path());
        assertEquals(3, table.rowCount());
        assertEquals(ColumnType.STRING, table.column("size").type());
        assertEquals("2.7B", table.stringColumn("size").get(0));
        assertEquals(128, table.intColumn("context").get(0));
        assertEquals(3, table.intColumn("n").get(0));
        assertEquals((1.5 + 2.25 + 1.0 / 3) / 3, table.doubleColumn("mean").get(0), 1e-8);
        assertEquals(0.333333333, table.doubleColumn("min").get(0));
        assertEquals("NVIDIA H200, \"SXM\"", table.stringColumn("device").get(0));
        assertEquals("1234567", table.stringColumn("commit").get(0));
        assertEquals("2026-11-20T10:00:00Z", table.stringColumn("date").get(2));
    }

    @Test
    void bytesKeepAllDigitsAndAbsentNumbersAreMissing() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        measurements.put(size("xl", 128), List.of(Measurement.missing(TOTAL, Status.OOM)), HERE);

        Table table = measurements.table();
        assertEquals(137_438_953_471.0, table.doubleColumn("max").get(1));
        assertTrue(Files.readString(measurements.path()).contains(",137438953471,,137438953471,"));
        assertTrue(table.doubleColumn("std").isMissing(0), "one sample has no standard deviation");
        assertTrue(table.doubleColumn("mean").isMissing(2));
        assertTrue(table.intColumn("n").isMissing(2));
        assertEquals("oom", table.stringColumn("status").get(2));
    }

    @Test
    void anIncompleteLastLineIsIgnoredAndThenOverwritten() throws IOException {
        measurements.put(size("small", 128), measured(1, 2), HERE);
        String whole = Files.readString(measurements.path());
        for (String incomplete : List.of("m", "medium,128,plain,total,ms,2,1.", "medium,128,\"pl")) {
            Files.writeString(measurements.path(), whole + incomplete);
            assertEquals(2, measurements.table().rowCount(), incomplete);
            assertTrue(measurements.holds(size("small", 128)), incomplete);
            assertFalse(measurements.holds(size("medium", 128)), incomplete);
        }
        measurements.put(size("large", 128), measured(3), HERE);
        assertEquals(
                List.of("small", "small", "large", "large"),
                measurements.table().stringColumn("size").asList());
        assertTrue(Files.readString(measurements.path()).startsWith(whole));
    }

    @Test
    void aFileWithAnIncompleteHeaderIsEmpty() throws IOException {
        Files.createDirectories(measurements.path().getParent());
        Files.writeString(measurements.path(), "size,cont");
        assertEquals(0, measurements.table().rowCount());
        measurements.put(size("small", 128), measured(1), HERE);
        assertEquals(2, measurements.table().rowCount());
    }

    @Test
    void aCompleteLineWithTooFewCellsIsAnError() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        Files.writeString(measurements.path(), "medium,128\n", StandardOpenOption.APPEND);
        var e = assertThrows(IOException.class, () -> measurements.table());
        assertTrue(e.getMessage().contains("line 4: the row has 2 cells, the header 16"), e.getMessage());
    }

    @Test
    void otherParametersAreRejectedAndTheFileIsUnchanged() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        String before = Files.readString(measurements.path());
        Case other = Case.of(Workload.class, "plain").with("size", "small").with("batch", 4);
        var e = assertThrows(IllegalArgumentException.class, () -> measurements.put(other, measured(1), HERE));
        assertTrue(e.getMessage().contains("[size, context, implementation"), e.getMessage());
        assertTrue(e.getMessage().contains("[size, batch, implementation"), e.getMessage());
        assertEquals(before, Files.readString(measurements.path()));
    }

    @Test
    void aCaseThatIsMeasuredAgainReplacesOnlyItsOwnRows() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        measurements.put(size("small", 256), measured(2), HERE);
        measurements.put(size("small", 128), measured(3), HERE);
        Table table = measurements.table();
        assertEquals(List.of(256, 256, 128, 128), table.intColumn("context").asList());
        assertEquals(3.0, table.doubleColumn("mean").get(2));
    }

    @Test
    void aCaseIsStoredWhenAllItsMetricsHaveRowsWithoutErrors() throws IOException {
        Case c = size("small", 128);
        assertFalse(measurements.holds(c), "no file");
        measurements.put(c, measured(1).subList(0, 1), HERE);
        assertFalse(measurements.holds(c), "a metric is missing");
        measurements.put(c, measured(1), HERE);
        assertTrue(measurements.holds(c));
        assertFalse(measurements.holds(c.with("context", 1280)));
        assertFalse(measurements.holds(new Case(c.workload(), "fused", c.parameters(), c.settings(), c.metrics())));
        measurements.put(
                c, List.of(Measurement.missing(TOTAL, Status.OOM), Measurement.missing(PEAK, Status.OOM)), HERE);
        assertTrue(measurements.holds(c), "out of memory is a result");
        measurements.put(c, List.of(measured(1).get(0), Measurement.missing(PEAK, Status.ERROR)), HERE);
        assertFalse(measurements.holds(c), "an error is not a result");
    }

    @Test
    void settingsDoNotIdentifyACase() throws IOException {
        measurements.put(size("small", 128).setting("device", "cuda:0"), measured(1), HERE);
        assertTrue(measurements.holds(size("small", 128).setting("device", "cuda:1")));
    }

    @Test
    void stepsAreStoredInTheirOwnFileAndCountedFromOne() throws IOException {
        measurements.putSteps(size("small", 128), List.of(new Samples(TOTAL, List.of(30.0, 3.5))));
        Table steps = Measurements.read(folder.resolve("h200/benchmarking_script_steps.csv"));
        assertEquals(
                List.of("size", "context", "implementation", "metric", "unit", "step", "value"), steps.columnNames());
        assertEquals(List.of(1, 2), steps.intColumn("step").asList());
        assertEquals(List.of(30.0, 3.5), steps.doubleColumn("value").asList());
        measurements.putSteps(size("small", 128), List.of(new Samples(TOTAL, List.of(4.0))));
        assertEquals(1, Measurements.read(measurements.stepsPath()).rowCount());
    }

    @Test
    void lineBreaksInACellBecomeSpaces() throws IOException {
        var odd = new Provenance("h200", "two\nlines", "", "", "");
        measurements.put(size("small", 128), measured(1), odd);
        assertEquals("two lines", measurements.table().stringColumn("device").get(0));
    }

    @Test
    void aMissingFileIsNamedInTheError() {
        var e = assertThrows(NoSuchFileException.class, () -> Measurements.read(folder.resolve("none.csv")));
        assertTrue(e.getMessage().endsWith("none.csv"));
        assertThrows(IllegalArgumentException.class, () -> new Measurements(folder.resolve("none.txt")));
    }
}
