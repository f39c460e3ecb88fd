package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import tech.tablesaw.api.Table;

@Timeout(300)
class SweepTest {
    static final Metric FORWARD = Metric.ms("forward"), BACKWARD = Metric.ms("backward");

    @TempDir
    Path folder;

    Measurements measurements;
    final ByteArrayOutputStream progress = new ByteArrayOutputStream();

    /** The time limit of a case, in which a busy machine can start a process. */
    private static final Duration LIMIT = Duration.ofSeconds(15);

    @BeforeEach
    void open() {
        measurements = Measurements.of(folder, "h200", "fake");
    }

    /** A workload that writes a line into a log, records forward times, and ends as its parameter {@code end} says. */
    public static final class FakeWorkload implements Workload {
        @Override
        public void run(Case c, Consumer<Samples> record) throws Exception {
            Files.writeString(
                    Path.of(c.text("log")),
                    c.text("end") + " " + ProcessHandle.current().pid() + "\n",
                    StandardOpenOption.CREATE,
                    StandardOpenOption.APPEND);
            System.out.println("chatter on standard output");
            var standardOutput = new FileOutputStream(
                    FileDescriptor.out); // not closed, because it is the standard output of the process
            standardOutput.write("half a line, as native code prints it".getBytes(StandardCharsets.UTF_8));
            record.accept(new Samples(FORWARD, List.of(1.0, 2.0, 3.0)));
            switch (c.text("end").replaceAll("-.*", "")) {
                case "ok" -> {}
                case "held" -> {
                    while (Files.exists(Path.of(c.text("log")).resolveSibling("hold"))) {
                        Thread.sleep(10);
                    }
                }
                case "stuck" -> Thread.sleep(600_000);
                case "exception" -> throw new IllegalStateException("shape [2, 3]\nand more");
                case "cuda" -> throw new RuntimeException("CUDA out of memory. Tried to allocate 2.00 GiB.");
                case "heap" -> throw new OutOfMemoryError("Java heap space");
                case "unsupported" -> throw new UnsupportedOperationException("d = 24");
                case "halt" -> Runtime.getRuntime().halt(3);
                case "once" -> {
                    if (Files.readAllLines(Path.of(c.text("log"))).size() > 1) {
                        Runtime.getRuntime().halt(3);
                    }
                }
                case "killed" -> signalItself(9);
                case "aborted" -> signalItself(6);
                case "witness" -> {
                    Path log = Path.of(c.text("log"));
                    Files.copy(log.resolveSibling("h200/fake.csv"), log.resolveSibling("log.seen"));
                }
                case "forgetful" -> {
                    return;
                }
                default -> throw new AssertionError();
            }
            record.accept(new Samples(BACKWARD, List.of(4.0, 5.0)));
            if (c.text("end").equals("ok-but-late")) {
                throw new IOException("No space left on device");
            }
        }

        /** Uses the shell's built-in kill, because the program is missing in small containers. */
        private static void signalItself(int signal) throws IOException, InterruptedException {
            new ProcessBuilder("sh", "-c", "kill -" + signal + " $PPID").start().waitFor();
            Thread.sleep(600_000); // until the signal arrives
        }
    }

    static Case ending(String end, Path folder) {
        return Case.of(FakeWorkload.class, "plain")
                .with("end", end)
                .setting("log", folder.resolve("log"))
                .yields(FORWARD, BACKWARD);
    }

    List<Case> ending(String... ends) {
        return java.util.Arrays.stream(ends).map(end -> ending(end, folder)).toList();
    }

    Sweep sweep() {
        return new Sweep(measurements, MeasurementsTest.HERE)
                .progress(new PrintStream(progress, true, StandardCharsets.UTF_8));
    }

    /** Returns the names of the cases that ran, in order. */
    List<String> ran() throws IOException {
        return Files.readAllLines(folder.resolve("log")).stream()
                .map(line -> line.split(" ")[0])
                .toList();
    }

    List<String> column(String name) throws IOException {
        return measurements.table().column(name).asStringColumn().asList();
    }

    @Test
    void aCaseRunsInAChildProcessAndItsSamplesAreStored() throws Exception {
        Sweep.CaseCounts result = sweep().run(ending("ok"));

        assertEquals(new Sweep.CaseCounts(1, 0, 0), result);
        assertEquals(0, result.exitCode());
        Table table = measurements.table();
        assertEquals(
                List.of("forward", "backward"), table.stringColumn("metric").asList());
        assertEquals(List.of(3, 2), table.intColumn("n").asList());
        assertEquals(List.of(2.0, 4.5), table.doubleColumn("mean").asList());
        assertEquals(List.of("ok", "ok"), table.stringColumn("status").asList());
        String pid = Files.readString(folder.resolve("log")).strip().split(" ")[1];
        assertFalse(pid.equals("" + ProcessHandle.current().pid()));
        assertFalse(Files.exists(measurements.stepsPath()), "steps are stored only on request");
    }

    @Test
    void runningOutOfMemoryIsAResultAndOtherFailuresAreErrors() throws Exception {
        Sweep.CaseCounts result = sweep().outOfMemoryKills(() -> 7)
                .run(ending(
                        "exception", "cuda", "heap", "unsupported", "halt", "killed", "aborted", "forgetful", "ok"));

        assertEquals(new Sweep.CaseCounts(9, 0, 5), result);
        assertEquals(1, result.exitCode());
        assertEquals(
                List.of("error", "oom", "oom", "unsupported", "error", "error", "error", "error", "ok"),
                measurements
                        .table()
                        .where(measurements.table().stringColumn("metric").isEqualTo("backward"))
                        .stringColumn("status")
                        .asList());
        assertTrue(
                measurements
                        .table()
                        .where(measurements.table().stringColumn("metric").isEqualTo("forward"))
                        .stringColumn("status")
                        .allMatch("ok"::equals),
                "samples recorded before the failure are kept");
        String said = progress.toString(StandardCharsets.UTF_8);
        assertTrue(said.contains("error (IllegalStateException: shape [2, 3])"), said);
        assertTrue(said.contains("oom (CUDA out of memory. Tried to allocate 2.00 GiB.)"), said);
        assertTrue(said.contains("error (its process ended early with exit code 3)"), said);
        assertTrue(said.contains("error (its process was ended by signal 6)"), said);
        assertTrue(
                said.contains("error (its process was ended by signal 9"
                        + " (SIGKILL; Linux counted no out-of-memory kill in /proc/vmstat))"),
                said);
        assertTrue(said.contains("error (the workload recorded no [backward])"), said);
        assertTrue(said.contains("[9/9] plain end=ok … forward 2.000 ms · "), said);
    }

    @Test
    void aKilledProcessRanOutOfMemoryIfLinuxCountedSuchAKill() throws Exception {
        var kills = new AtomicLong(7);
        assertEquals(
                new Sweep.CaseCounts(1, 0, 0),
                sweep().outOfMemoryKills(kills::getAndIncrement).run(ending("killed")));
        assertEquals(List.of("ok", "oom"), column("status"));
        String said = progress.toString(StandardCharsets.UTF_8);
        assertTrue(said.contains("oom (killed by SIGKILL while Linux killed processes because memory was full)"), said);
    }

    /** A workload that records a prediction before the total time. */
    public static final class PredictingWorkload implements Workload {
        @Override
        public void run(Case c, Consumer<Samples> record) {
            record.accept(Samples.once(Metric.bytes("predicted-peak-memory"), 77e6));
            record.accept(Samples.once(Metric.ms("total"), 2.5));
        }
    }

    @Test
    void progressShowsTheTotalTimeIfThereIsOne() throws Exception {
        Case c = Case.of(PredictingWorkload.class, "plain")
                .with("end", "ok")
                .yields(Metric.bytes("predicted-peak-memory"), Metric.ms("total"));
        sweep().run(List.of(c));
        String said = progress.toString(StandardCharsets.UTF_8);
        assertTrue(said.contains("[1/1] plain end=ok … total 2.500 ms · "), said);
    }

    @Test
    void aCaseThatNoWorkloadMeasuresIsRefusedBeforeAnyCaseRuns() throws Exception {
        List<Case> cases = new ArrayList<>(ending("ok"));
        cases.add(Case.measuredHere("plain").with("d", 64).yields(Metric.ms("forward")));
        var e = assertThrows(IllegalArgumentException.class, () -> sweep().run(cases));
        assertEquals("case plain d=64 has no workload, so a sweep cannot run it", e.getMessage());
        assertFalse(Files.exists(measurements.path()));
    }

    @Test
    void aSecondRunSkipsResultsAndRepeatsFailures() throws Exception {
        List<Case> cases = ending("ok", "cuda", "halt");
        assertEquals(new Sweep.CaseCounts(3, 0, 1), sweep().run(cases));
        assertEquals(new Sweep.CaseCounts(1, 2, 1), sweep().run(cases));
        assertEquals(List.of("ok", "cuda", "halt", "halt"), ran());
        assertEquals(6, measurements.table().rowCount());
        assertEquals(new Sweep.CaseCounts(1, 0, 0), sweep().again(true).run(cases.subList(0, 1)));
        assertEquals(List.of("ok", "cuda", "halt", "halt", "ok"), ran());
        assertEquals(6, measurements.table().rowCount());
    }

    @Test
    void aResultStaysIfItsRepetitionFails() throws Exception {
        List<Case> cases = ending("once");
        assertEquals(new Sweep.CaseCounts(1, 0, 0), sweep().keepSteps(true).run(cases));
        String steps = Files.readString(measurements.stepsPath());
        assertTrue(steps.contains(",backward,"), steps);
        assertEquals(
                new Sweep.CaseCounts(1, 0, 1),
                sweep().keepSteps(true).again(true).run(cases));
        assertEquals(List.of("ok", "ok"), column("status"));
        assertEquals(steps, Files.readString(measurements.stepsPath()));
    }

    @Test
    void aCaseThatFailsAfterItsLastMetricIsAFailure() throws Exception {
        List<Case> cases = ending("ok-but-late");
        assertEquals(new Sweep.CaseCounts(1, 0, 1), sweep().run(cases));
        assertEquals(List.of("error", "error"), column("status"));
        assertEquals(
                List.of(2.0, 4.5), measurements.table().doubleColumn("mean").asList());
        assertEquals(new Sweep.CaseCounts(1, 0, 1), sweep().run(cases), "it is measured again");
    }

    private List<String> processes() throws IOException {
        return Files.readAllLines(folder.resolve("log")).stream()
                .map(line -> line.split(" ")[1])
                .toList();
    }

    @Test
    void casesShareAProcessUntilOneRunsOutOfMemoryOrFails() throws Exception {
        String[] ends = {"ok-1", "unsupported", "ok-2", "cuda", "ok-3", "halt", "ok-4", "exception", "ok-5", "ok-6"};
        Sweep.CaseCounts result = sweep().sharing(c -> "all").run(ending(ends));
        assertEquals(new Sweep.CaseCounts(10, 0, 2), result);
        List<String> pids = processes();
        assertEquals(
                List.of(0, 0, 0, 0, 4, 4, 6, 6, 8, 8),
                pids.stream().map(pids::indexOf).toList());
        assertEquals(
                List.of("ok", "unsupported", "ok", "oom", "ok", "error", "ok", "error", "ok", "ok"),
                measurements
                        .table()
                        .where(measurements.table().stringColumn("metric").isEqualTo("backward"))
                        .stringColumn("status")
                        .asList());
        assertEquals(new Sweep.CaseCounts(2, 8, 2), sweep().sharing(c -> "all").run(ending(ends)));
    }

    @Test
    void onlyNeighbouringCasesWithEqualKeysShareAProcess() throws Exception {
        sweep().sharing(c -> c.text("end").endsWith("a")).run(ending("ok-1a", "ok-2a", "ok-3b", "ok-4a"));
        List<String> pids = processes();
        assertEquals(List.of(0, 0, 2, 3), pids.stream().map(pids::indexOf).toList());
    }

    @Test
    void aCaseIsStoredBeforeTheNextStartsInTheSameProcess() throws Exception {
        sweep().sharing(c -> "all").run(ending("ok", "witness"));
        assertEquals(1, processes().stream().distinct().count());
        List<String> seen = Files.readAllLines(folder.resolve("log.seen"));
        assertEquals(3, seen.size(), "header and two metrics: " + seen);
    }

    @Test
    void aCaseThatExceedsItsTimeLimitIsKilledAndTheSweepContinues() throws Exception {
        long start = System.nanoTime();
        var result = sweep().timeLimit(LIMIT).run(ending("stuck", "ok"));
        assertEquals(new Sweep.CaseCounts(2, 0, 1), result);
        assertTrue(Duration.ofNanos(System.nanoTime() - start).toSeconds() < 300); // not the 600 s of the case
        assertEquals(List.of("ok", "error", "ok", "ok"), column("status"));
        assertTrue(progress.toString(StandardCharsets.UTF_8).contains("exceeded its time limit of 0:15"));
    }

    @Test
    void extraResultsAreStoredBeforeTheRowsAndOnlyForStatusOk() throws Exception {
        List<String> stored = new ArrayList<>();
        sweep().alsoStore((c, rows, provenance) -> {
                    assertFalse(rows.holds(c), "the rows are stored too early");
                    stored.add(c.text("end") + " from " + provenance.machine());
                })
                .run(ending("ok", "exception", "cuda", "ok-2"));
        assertEquals(List.of("ok from h200", "ok-2 from h200"), stored);
        assertTrue(measurements.holds(ending("ok-2").get(0)));
    }

    @Test
    void stepsAreStoredOnRequest() throws Exception {
        sweep().keepSteps(true).run(ending("ok"));
        Table steps = Measurements.read(measurements.stepsPath());
        assertEquals(List.of(1, 2, 3, 1, 2), steps.intColumn("step").asList());
        assertEquals(
                List.of(1.0, 2.0, 3.0, 4.0, 5.0), steps.doubleColumn("value").asList());
    }

    @Test
    void casesWithOtherColumnsAreRejectedBeforeAnythingRuns() throws Exception {
        sweep().run(ending("ok"));
        var cases = new ArrayList<>(ending("ok-2"));
        cases.add(ending("ok", folder).with("more", 1));
        assertThrows(IllegalArgumentException.class, () -> sweep().run(cases));
        assertThrows(IllegalArgumentException.class, () -> sweep().run(List.of(Case.of(FakeWorkload.class, "plain"))));
        assertEquals(List.of("ok"), ran());
    }

    /** The main class of a process that runs a sweep: {@code SweepTest$SweepProcess folder end…}. */
    static final class SweepProcess {
        public static void main(String[] args) throws Exception {
            Path folder = Path.of(args[0]);
            List<Case> cases = IntStream.range(1, args.length)
                    .mapToObj(i -> ending(args[i], folder))
                    .toList();
            new Sweep(Measurements.of(folder, "h200", "fake"), MeasurementsTest.HERE).run(cases);
        }
    }

    @Test
    void aKilledSweepLeavesFinishedCasesAndNoWorkerAndCanBeResumed() throws Exception {
        String[] ends = {"ok-1", "ok-2", "held-3", "ok-4"};
        Path hold = Files.createFile(folder.resolve("hold"));
        Process sweep = startSweep(ends);
        until(() -> started() >= 3);
        sweep.destroyForcibly().waitFor(); // SIGKILL

        assertEquals(128 + 9, sweep.exitValue());
        long worker =
                Long.parseLong(Files.readAllLines(folder.resolve("log")).get(2).split(" ")[1]);
        until(() -> ProcessHandle.of(worker).filter(ProcessHandle::isAlive).isEmpty());
        assertEquals(List.of("ok-1", "ok-1", "ok-2", "ok-2"), column("end"));

        Files.delete(hold);
        assertEquals(new Sweep.CaseCounts(2, 2, 0), sweep().run(ending(ends)));
        assertEquals(List.of("ok-1", "ok-2", "held-3", "held-3", "ok-4"), ran());
        assertEquals(8, measurements.table().rowCount());
    }

    @Test
    void terminatingASweepEndsItsWorker() throws Exception {
        Process sweep = startSweep("stuck");
        until(() -> started() == 1);
        long worker =
                Long.parseLong(Files.readString(folder.resolve("log")).strip().split(" ")[1]);
        sweep.destroy(); // SIGTERM, which a JVM handles like Ctrl-C
        assertTrue(sweep.waitFor(120, TimeUnit.SECONDS));
        until(() -> ProcessHandle.of(worker).filter(ProcessHandle::isAlive).isEmpty());
    }

    @Test
    void aStoppedWorkerEndsWithItsKilledSweep() throws Exception {
        Process sweep = startSweep("stuck");
        until(() -> started() == 1);
        String worker = Files.readString(folder.resolve("log")).strip().split(" ")[1];
        ProcessHandle stopped = ProcessHandle.of(Long.parseLong(worker)).orElseThrow();
        try {
            new ProcessBuilder("sh", "-c", "kill -STOP " + worker).start().waitFor();
            sweep.destroyForcibly().waitFor();
            until(() -> !stopped.isAlive());
        } finally {
            stopped.destroyForcibly();
        }
    }

    private Process startSweep(String... ends) throws IOException {
        var builder = TestJvm.of(SweepProcess.class, folder.toString());
        builder.command().addAll(List.of(ends));
        return builder.redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
    }

    private long started() {
        try {
            return Files.exists(folder.resolve("log"))
                    ? Files.readAllLines(folder.resolve("log")).size()
                    : 0;
        } catch (IOException e) {
            return 0;
        }
    }

    private static void until(BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(120);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, "the condition was not met within 120 seconds");
            Thread.sleep(20);
        }
    }
}
