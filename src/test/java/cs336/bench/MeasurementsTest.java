package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import tech.tablesaw.api.ColumnType;
import tech.tablesaw.api.Table;

class MeasurementsTest {
    static final Provenance HERE = new Provenance(
            "h200",
            "NVIDIA H200, \"SXM\"",
            "pytorch 2.10.0",
            "1234567",
            "2026-11-20T10:00:00Z",
            "Xeon 8480C (64 cores)",
            "1.25");
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
                        "date",
                        "host",
                        "load"),
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
        assertEquals("Xeon 8480C (64 cores)", table.stringColumn("host").get(1));
        assertEquals(1.25, table.doubleColumn("load").get(2));
    }

    @Test
    void olderFilesWithoutHostAndLoadAreReadAndExtended() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        Path file = measurements.path();
        String older =
                Files.readString(file).replace(",host,load\n", "\n").replace(",Xeon 8480C (64 cores),1.25\n", "\n");
        Files.writeString(file, older);

        assertEquals("", measurements.table().stringColumn("host").get(0));
        assertTrue(measurements.table().doubleColumn("load").isMissing(0));
        assertTrue(measurements.holds(size("small", 128)));
        measurements.requireSameColumns(size("small", 128));

        measurements.put(size("large", 128), measured(2), HERE);
        Table table = measurements.table();
        assertEquals(
                List.of("small", "small", "large", "large"),
                table.stringColumn("size").asList());
        assertEquals("2026-11-20T10:00:00Z", table.stringColumn("date").get(0));
        assertEquals(
                List.of("", "", "Xeon 8480C (64 cores)", "Xeon 8480C (64 cores)"),
                table.stringColumn("host").asList());
        assertTrue(table.doubleColumn("load").isMissing(1));
        assertEquals(1.25, table.doubleColumn("load").get(3));
    }

    @Test
    void columnsThatAreMissingOrAdditionalAreNamed() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        String file = measurements.path() + " ";
        Case other = Case.measuredHere("plain");
        assertEquals(
                file
                        + "lacks the case's columns [tokens] and has the additional columns [context]: use another problem name",
                differentColumns(other.with("size", "small").with("tokens", 128)));
        assertEquals(
                file + "lacks the case's columns [batch]: use another problem name",
                differentColumns(size("small", 128).with("batch", 1)));
        assertEquals(
                file + "has the additional columns [context]: use another problem name",
                differentColumns(other.with("size", "small")));
        String message = differentColumns(other.with("context", 128).with("size", "small"));
        assertTrue(
                message.startsWith(
                        file + "has the columns of the case in another order, [size, context, implementation,"),
                message);
    }

    private String differentColumns(Case c) {
        return assertThrows(IllegalArgumentException.class, () -> measurements.requireSameColumns(c))
                .getMessage();
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
    void anIncompleteLastCharacterIsIgnored() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        byte[] half = Arrays.copyOf("medium,128,µ".getBytes(StandardCharsets.UTF_8), "medium,128,".length() + 1);
        Files.write(measurements.path(), half, StandardOpenOption.APPEND);
        assertEquals(2, measurements.table().rowCount());
        measurements.put(size("large", 128), measured(3), HERE);
        assertEquals(4, measurements.table().rowCount());
    }

    /** Without line feeds the whole file would be an incomplete line, and the next append would remove it. */
    @Test
    void aFileWhoseLinesEndWithCarriageReturnsIsNotOverwritten() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        String text = Files.readString(measurements.path()).replace('\n', '\r');
        Files.writeString(measurements.path(), text);
        var error = assertThrows(IOException.class, () -> measurements.put(size("xl", 128), measured(2), HERE));
        assertEquals(
                measurements.path() + ", line 1: the line ends with a carriage return, not with a line feed",
                error.getMessage());
        assertEquals(text, Files.readString(measurements.path()));
    }

    @Test
    void aLineThatIsTooLongIsAnError() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        Files.writeString(measurements.path(), "x".repeat(100_001) + "\n", StandardOpenOption.APPEND);
        var error = assertThrows(IOException.class, () -> measurements.put(size("xl", 128), measured(2), HERE));
        assertEquals(measurements.path() + ", line 4: the line has 100001 bytes, more than 100000", error.getMessage());
    }

    @Test
    void aFileWithOneIncompleteLineOfOtherTextIsNotOverwritten() throws IOException {
        Files.createDirectories(measurements.path().getParent());
        Files.writeString(measurements.path(), "my notes, no newline");
        var e = assertThrows(IOException.class, () -> measurements.table());
        assertEquals(
                measurements.path() + ", line 1: the line does not end, and is not the beginning of a header",
                e.getMessage());
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
        assertTrue(e.getMessage().contains("line 4: the row has 2 cells, the header 18"), e.getMessage());
    }

    /** Replaces a text in a file of two rows by bytes, and expects an error about one of its lines. */
    private void assertDamaged(String text, byte[] damage, String message) throws IOException {
        Files.deleteIfExists(measurements.path());
        measurements.put(size("small", 128), measured(1.5), HERE);
        var stored = new String(Files.readAllBytes(measurements.path()), StandardCharsets.ISO_8859_1);
        String damaged = stored.replaceFirst(text, new String(damage, StandardCharsets.ISO_8859_1));
        assertNotEquals(stored, damaged);
        Files.write(measurements.path(), damaged.getBytes(StandardCharsets.ISO_8859_1));
        var e = assertThrows(IOException.class, () -> measurements.table(), message);
        assertEquals(measurements.path() + ", " + message, e.getMessage());
    }

    @Test
    void aDamagedLineIsReportedWithFileAndLine() throws IOException {
        assertDamaged("total", new byte[] {(byte) 0xff}, "line 2: the line is not UTF-8");
        assertDamaged("\"NVIDIA", "NVIDIA".getBytes(), "line 2: a quote is not closed");
        assertDamaged("1\\.5", "1,5".getBytes(), "line 2: the row has 19 cells, the header 18");
        assertDamaged("1\\.5", "1.5.5".getBytes(), "line 2: mean must be a number, not '1.5.5'");
        assertDamaged("137438953471", "x".getBytes(), "line 3: mean must be a number, not 'x'");
        assertDamaged("ms,1,", "ms,1.5,".getBytes(), "line 2: n must be a number, not '1.5'");
        assertDamaged("128", "12x".getBytes(), "line 2: context must be a number, not '12x'");
        assertDamaged("128", "".getBytes(), "line 2: context must be a number, not ''");
        assertDamaged("context", "Size".getBytes(), "line 1: the header names a column twice");
        assertDamaged(
                "^",
                new byte[] {(byte) 0xef, (byte) 0xbb, (byte) 0xbf},
                "line 1: the file begins with a byte order mark");
    }

    @Test
    void aFolderInPlaceOfTheFileIsNamed() throws IOException {
        Files.createDirectories(measurements.path());
        var e = assertThrows(IOException.class, () -> measurements.put(size("small", 128), measured(1.5), HERE));
        assertEquals(measurements.path() + " is a folder, not a file", e.getMessage());
    }

    @Test
    void damagedMeasurementsAreReportedBeforeAnythingIsMeasured() throws IOException {
        assertDamaged("1\\.5", "1.5.5".getBytes(), "line 2: mean must be a number, not '1.5.5'");
        assertThrows(IOException.class, () -> measurements.requireWritable());
    }

    /** Reads, and stores a row into, files with random damage; the only failures are IOExceptions with a line. */
    @Test
    void anyDamageIsReportedOrHarmless() throws IOException {
        measurements.put(size("small", 128), measured(1.5, 2.5), HERE);
        measurements.put(size("mädium", 128), measured(Double.POSITIVE_INFINITY), HERE);
        byte[] whole = Files.readAllBytes(measurements.path());
        var random = new Random(336);
        int reported = 0;
        int tried = AttackCount.times(1500);
        for (int i = 0; i < tried; i++) {
            byte[] bytes = RandomDamage.of(whole, random, () -> {
                byte[] likely = {',', '"', '\n', '\r', 0, '-', (byte) 0xc3, (byte) random.nextInt()};
                return likely[random.nextInt(likely.length)];
            });
            Files.write(measurements.path(), bytes);
            try {
                measurements.table();
                measurements.holds(size("small", 128));
            } catch (IOException e) {
                assertTrue(e.getMessage().matches("(?s)" + measurements.path() + ", line \\d: .*"), e.getMessage());
                reported++;
            }
        }
        assertTrue(reported > tried / 5 && reported < tried / 15 * 14, "" + reported);
        AttackCount.inputs(tried, "damaged files of measurements");
    }

    @Test
    void otherParametersAreRejectedAndTheFileIsUnchanged() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        String before = Files.readString(measurements.path());
        Case other = Case.of(Workload.class, "plain").with("size", "small").with("batch", 4);
        var e = assertThrows(IllegalArgumentException.class, () -> measurements.put(other, measured(1), HERE));
        assertEquals(
                measurements.path() + " lacks the case's columns [batch] and has the additional columns [context]:"
                        + " use another problem name",
                e.getMessage());
        assertEquals(before, Files.readString(measurements.path()));
    }

    @Test
    void aParameterWithTheNameOfAnotherColumnIsRejectedBeforeAnythingIsStored() throws IOException {
        Case small = size("small", 128);
        for (Case c : List.of(small.with("n", 3), small.with("Status", "cold"), small.with("Size", "s"))) {
            var e = assertThrows(IllegalArgumentException.class, () -> measurements.put(c, measured(1), HERE));
            assertTrue(e.getMessage().contains("has the name of another column"), e.getMessage());
        }
        Case step = small.with("step", 3);
        assertThrows(
                IllegalArgumentException.class,
                () -> measurements.putSteps(step, List.of(new Samples(TOTAL, List.of(1.0)))));
        assertFalse(Files.exists(measurements.path()));
        assertFalse(Files.exists(measurements.stepsPath()));
        measurements.put(step, measured(1), HERE); // this file has no column of that name
        assertEquals(3, measurements.table().intColumn("step").get(0));
    }

    @Test
    void casesThatAreStoredTogetherReplaceAllEarlierOnesOfTheirGroup() throws IOException {
        Case small = size("small", 128), large = size("large", 128);
        measurements.putAll(small, Map.of(small.with("kernel", "old"), measured(1)), HERE);
        measurements.putAll(large, Map.of(large.with("kernel", "old"), measured(2)), HERE);
        measurements.putAll(small, Map.of(small.with("kernel", "new"), measured(3)), HERE);
        assertEquals(
                List.of("old", "old", "new", "new"),
                measurements.table().stringColumn("kernel").asList());
        assertThrows(IllegalArgumentException.class, () -> measurements.putAll(small, Map.of(), HERE));
        assertEquals(4, measurements.table().rowCount());
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
        var odd = new Provenance("h200", "two\nlines", "", "", "", "", "");
        measurements.put(size("small", 128), measured(1), odd);
        assertEquals("two lines", measurements.table().stringColumn("device").get(0));
    }

    @Test
    void aCaseWithALineBreakIsRejected() {
        for (String lineBreak : List.of("\n", "\r", "\r\n", "\u2028")) {
            String odd = "two" + lineBreak + "lines";
            var e = assertThrows(IllegalArgumentException.class, () -> size(odd, 128));
            assertEquals("parameter size must not contain a line break: 'two\\nlines'", e.getMessage());
            assertThrows(
                    IllegalArgumentException.class, () -> size("small", 128).withImplementation(odd));
            assertThrows(IllegalArgumentException.class, () -> Metric.ms(odd));
        }
    }

    /** All numbers of command lines are ints: what can be measured must be readable. */
    @Test
    void theLargestIntegersAreReadBack() throws IOException {
        Case large = size("xl", Integer.MAX_VALUE).with("seed", 1L << 40);
        measurements.put(large, measured(1), HERE);
        assertEquals(
                Integer.MAX_VALUE, measurements.table().intColumn("context").get(0));
        assertEquals(1L << 40, measurements.table().longColumn("seed").get(0));
        assertDamaged("128", "2147483648".getBytes(), "line 2: context must be a number, not '2147483648'");
    }

    @Test
    void infiniteNumbersAreStored() throws IOException {
        measurements.put(size("small", 128), measured(Double.POSITIVE_INFINITY, 1), HERE);
        measurements.put(size("large", 128), measured(Double.NEGATIVE_INFINITY), HERE);
        Table table = measurements.table();
        assertEquals(Double.POSITIVE_INFINITY, table.doubleColumn("mean").get(0));
        assertTrue(table.doubleColumn("std").isMissing(0));
        assertEquals(1.0, table.doubleColumn("min").get(0));
        assertEquals(Double.NEGATIVE_INFINITY, table.doubleColumn("max").get(2));
        String text = ResultTable.of(measurements, List.of(size("small", 128), size("large", 128)));
        assertTrue(text.contains("Infinity"), text);
    }

    /** The main class of a process that stores cases in a file, each twice: {@code folder name}. */
    static final class StoringProcess {
        static final int CASES = 15;

        public static void main(String[] args) throws Exception {
            Path folder = Path.of(args[0]);
            Files.createFile(folder.resolve(args[1] + ".ready"));
            System.in.read(); // until both processes have started
            var measurements = Measurements.of(folder, "h200", "shared");
            for (int round = 1; round <= 2; round++) {
                for (int i = 0; i < CASES; i++) {
                    measurements.put(size(args[1], i), measured(round), HERE);
                    measurements.putSteps(size(args[1], i), List.of(new Samples(TOTAL, List.of(1.0 * round))));
                }
            }
        }
    }

    @Test
    @Timeout(300)
    void twoProcessesStoreIntoOneFileWithoutLoss() throws Exception {
        var processes = new ArrayList<Process>();
        for (String name : List.of("left", "right")) {
            processes.add(TestJvm.of(StoringProcess.class, folder.toString(), name)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start());
        }
        while (!Files.exists(folder.resolve("left.ready")) || !Files.exists(folder.resolve("right.ready"))) {
            assertTrue(processes.stream().allMatch(Process::isAlive));
            Thread.sleep(10);
        }
        for (Process process : processes) {
            process.getOutputStream().close();
        }
        for (Process process : processes) {
            assertEquals(0, process.waitFor());
        }
        var shared = Measurements.of(folder, "h200", "shared");
        assertEquals(2 * 2 * StoringProcess.CASES, shared.table().rowCount());
        for (String name : List.of("left", "right")) {
            for (int i = 0; i < StoringProcess.CASES; i++) {
                assertTrue(shared.holds(size(name, i)), name + i);
            }
        }
        Table totals =
                shared.table().where(shared.table().stringColumn("metric").isEqualTo("total"));
        assertEquals(
                Collections.nCopies(2 * StoringProcess.CASES, 2.0),
                totals.doubleColumn("mean").asList());
        assertEquals(
                2 * StoringProcess.CASES, Measurements.read(shared.stepsPath()).rowCount());
    }

    @Test
    void threadsStoreIntoOneFileWithoutLoss() throws Exception {
        var failures = new ConcurrentLinkedQueue<Throwable>();
        List<Thread> threads = IntStream.range(0, 4)
                .mapToObj(t -> new Thread(() -> {
                    try {
                        for (int i = 0; i < 4; i++) {
                            Measurements.of(folder, "h200", "shared").put(size("t" + t, i), measured(1), HERE);
                            Measurements.of(folder, "h200", "shared").put(size("t" + t, i), measured(2), HERE);
                        }
                    } catch (IOException | RuntimeException e) {
                        failures.add(e);
                    }
                }))
                .toList();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(List.of(), List.copyOf(failures));
        assertEquals(32, Measurements.of(folder, "h200", "shared").table().rowCount());
    }

    @Test
    void temporaryFilesOfKilledProcessesAreDeleted() throws IOException {
        measurements.put(size("small", 128), measured(1), HERE);
        Path stale = measurements.path().resolveSibling("benchmarking_script.csv.1.new");
        Path older = measurements.path().resolveSibling("benchmarking_script.csv.new");
        Path other = measurements.path().resolveSibling("other.csv.1.new");
        for (Path file : List.of(stale, older, other)) {
            Files.writeString(file, "half a fi");
        }
        measurements.put(size("small", 128), measured(2), HERE);
        assertFalse(Files.exists(stale));
        assertFalse(Files.exists(older));
        assertTrue(Files.exists(other));
        assertEquals(2, measurements.table().rowCount());
    }

    @Test
    void aMissingFileIsNamedInTheError() {
        var e = assertThrows(NoSuchFileException.class, () -> Measurements.read(folder.resolve("none.csv")));
        assertTrue(e.getMessage().endsWith("none.csv"));
        assertThrows(IllegalArgumentException.class, () -> new Measurements(folder.resolve("none.txt")));
    }
}
