package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.bench.TestJvm;
import cs336.bench.WholeFile;
import cs336.distributed.bench.ToyModel;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.CollectiveFailure;
import cs336.distributed.collectives.PendingCollective;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import cs336.distributed.collectives.ReservedPort;
import cs336.distributed.collectives.World;
import cs336.distributed.training.DistributedDataParallel;
import cs336.distributed.training.FileWork;
import cs336.distributed.training.ShardedOptimizer;
import cs336.distributed.training.Sharding;
import cs336.distributed.training.Strategy;
import cs336.torch.AutogradFunction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** A failure of one rank ends all ranks in time, names the rank and the cause, and leaves no process. */
@Timeout(300)
public class FailingWellTest {
    static final Duration TIMEOUT = Duration.ofSeconds(5);
    static final Duration KILL_TIMEOUT = Duration.ofSeconds(60); // which a closed connection does not wait for
    static final Duration SHORT_TIMEOUT = Duration.ofSeconds(1); // where no rank has to arrive in time
    static final Duration QUIET_TIMEOUT = Duration.ofSeconds(3);
    static final double BOUND_S = 120; // far less than a disturbance lasts
    static final long LOADING_S = 20; // of native libraries with a warm cache

    /** Runs all-reduces without end; rank 1 is disturbed in step 20. */
    public static final class EndlessAllReduce implements RankProgram<String, Integer> {
        @Override
        public Integer run(ProcessGroup group, String how) throws Exception {
            System.out.println("pid " + ProcessHandle.current().pid());
            try (var scope = MemoryScope.open()) {
                Tensor t = ones(DType.FLOAT32, 1000);
                for (int step = 0; ; step++) {
                    if (step == 20 && group.rank() == 1) {
                        System.out.println("now");
                        disturb(group, how);
                    }
                    group.allReduce(t, Reduction.SUM);
                }
            }
        }

        static void disturb(ProcessGroup group, String how) throws Exception {
            switch (how) {
                case "is killed" -> signalItself("KILL");
                case "is stopped" -> signalItself("STOP");
                case "hangs" -> Thread.sleep(600_000);
                case "fails in its backward pass" ->
                    new Faulty()
                            .apply(ones(DType.FLOAT32, 2).set_requires_grad(true))[0]
                            .sum()
                            .backward();
                default -> throw new AssertionError(how);
            }
        }

        /** Uses the shell's built-in kill, because small containers lack the program. */
        static void signalItself(String signal) throws Exception {
            new ProcessBuilder("sh", "-c", "kill -" + signal + " $PPID").start().waitFor();
            Thread.sleep(600_000); // until the signal arrives
        }
    }

    /** A function whose backward pass throws. */
    public static final class Faulty extends AutogradFunction {
        @Override
        protected Tensor[] forward(Context ctx, Tensor... inputs) {
            return new Tensor[] {inputs[0].clone()};
        }

        @Override
        protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
            throw new ArithmeticException("no gradient today");
        }
    }

    static Tensor ones(DType dtype, long... shape) {
        return torch.ones(shape, Device.cpu().options(dtype));
    }

    /** The output of two or fewer ranks. */
    private static final class RankOutput extends ByteArrayOutputStream {
        private volatile long disturbedAt;

        PrintStream stream() {
            return new PrintStream(this, true, StandardCharsets.UTF_8) {
                @Override
                public void println(String line) {
                    if (line.equals("[1] now")) {
                        disturbedAt = System.nanoTime();
                    }
                    super.println(line);
                }
            };
        }

        double secondsSinceDisturbance() {
            return (System.nanoTime() - disturbedAt) / 1e9;
        }

        /** Returns the process ids that ranks have printed. */
        List<Long> pids() {
            return Pattern.compile("\\[\\d] pid (\\d+)")
                    .matcher(toString(StandardCharsets.UTF_8))
                    .results()
                    .map(m -> Long.parseLong(m.group(1)))
                    .toList();
        }
    }

    /** Runs that mostly wait for a timeout, started together; each test awaits its own. */
    private static final Map<String, CompletableFuture<RankFailure>> TOGETHER = new HashMap<>();

    private static final RankOutput OF_SILENT_RANK = new RankOutput();
    private static final CompletableFuture<List<String>> OF_QUIET_RANK = new CompletableFuture<>();

    @TempDir
    private static Path cache;

    @BeforeAll
    static void startTogether() throws IOException {
        Files.createDirectory(cache.resolve("first"));
        OF_QUIET_RANK.completeAsync(FailingWellTest::quietRank, task -> new Thread(task).start());
        TOGETHER.put("loads forever", WaitingLaunches.inBackground(FailingWellTest::loadingFailure));
        TOGETHER.put("falls silent", WaitingLaunches.inBackground(() -> {
            var launcher = Launcher.of(2).timeout(QUIET_TIMEOUT).output(OF_SILENT_RANK.stream());
            return assertThrows(RankFailure.class, () -> launcher.run(FallsSilent.class, "stop"));
        }));
        var disturbed = List.of("is killed", "is stopped", "hangs", "fails in its backward pass");
        disturbed.forEach(how -> TOGETHER.put(how, WaitingLaunches.inBackground(() -> failure(how))));
        disturbed.forEach(how -> TOGETHER.get(how).exceptionally(e -> null).join()); // before tests with tight timeouts
    }

    /** Runs two ranks, of which one is disturbed, and checks what holds for every failure. */
    private static RankFailure failure(String how) {
        var output = new RankOutput();
        boolean waits = how.equals("is stopped") || how.equals("hangs");
        var launcher = Launcher.of(2).timeout(waits ? TIMEOUT : KILL_TIMEOUT).output(output.stream());
        var e = assertThrows(RankFailure.class, () -> launcher.run(EndlessAllReduce.class, how));
        double seconds = output.secondsSinceDisturbance();
        System.out.printf("%s: %.1f s, %s%n", how, seconds, e.getMessage());
        assertTrue(seconds < BOUND_S, "took " + seconds + " s");
        assertEquals(2, output.pids().size());
        for (long pid : output.pids()) {
            assertFalse(isAlive(pid), "rank's process " + pid + " is left");
        }
        requireReport(e, 2);
        return e;
    }

    /** Checks that the error file names all ranks and contains the last collective, and deletes it. */
    private static void requireReport(RankFailure failure, int ranks) {
        try {
            String report = Files.readString(failure.report());
            Files.delete(failure.report());
            requireContains(report, failure.getMessage(), "21: all-reduce (sum) of fp32 [1000]\n");
            for (int rank = 0; rank < ranks; rank++) {
                requireContains(report, "\nrank " + rank + ": ");
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static boolean isAlive(long pid) {
        return ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false);
    }

    @Test
    void aKilledRankIsNamedWithItsSignal() {
        RankFailure e = TOGETHER.get("is killed").join();
        assertEquals(1, e.rank());
        assertTrue(e.getMessage().startsWith("rank 1 of 2: its process was ended by signal 9"), e.getMessage());
    }

    @Test
    void aHangingRankIsNamedWithItsLineOfCode() {
        RankFailure e = TOGETHER.get("hangs").join();
        assertEquals(1, e.rank());
        assertTrue(
                e.getMessage()
                        .matches(
                                "rank 1 of 2: it is at EndlessAllReduce\\.disturb \\(FailingWellTest.java:\\d+\\), called at .*"),
                e.getMessage());
        assertTrue(
                e.getMessage()
                        .contains(
                                "after 20 collectives; rank 0 reports: collective 21, all-reduce (sum) of fp32 [1000], failed on rank 0"),
                e.getMessage());
    }

    @Test
    void aStoppedRankIsNamedAsNotResponding() {
        RankFailure e = TOGETHER.get("is stopped").join();
        assertEquals(1, e.rank());
        // On a busy machine the launcher may miss the heartbeat before rank 0 reports.
        assertTrue(
                e.getMessage()
                        .matches(
                                "rank 1 of 2: (it does not respond; rank 0 reports: collective 21,|no heartbeat for 7 s; it does not respond; ).*"),
                e.getMessage());
    }

    @Test
    void anExceptionInABackwardPassEndsAllRanks() {
        RankFailure e = TOGETHER.get("fails in its backward pass").join();
        assertEquals(1, e.rank());
        assertTrue(e.getMessage().startsWith("rank 1 of 2: ArithmeticException: no gradient today"), e.getMessage());
        assertTrue(e.getMessage().contains("FailingWellTest.java"), e.getMessage());
    }

    /** Trains with overlapping all-reduces; in the third step rank 1 fails after some have started. */
    public static final class FaultyTraining implements RankProgram<String, Integer> {
        @Override
        public Integer run(ProcessGroup group, String argument) {
            try (var model = new ToyModel(false, Device.cpu(), DType.FLOAT32);
                    var ddp = new DistributedDataParallel(model, group, Strategy.overlapped())) {
                for (int step = 0; ; step++) {
                    try (var scope = MemoryScope.open()) {
                        Tensor x = ones(DType.FLOAT32, 1, ToyModel.IN).set_requires_grad(true);
                        boolean faulty = step == 2 && group.rank() == 1;
                        ddp.forward(faulty ? new Faulty().apply(x)[0] : x).sum().backward();
                        ddp.finishGradientSynchronization();
                    }
                }
            }
        }
    }

    @Test
    void anExceptionInABackwardPassIsReportedAfterAllReducesHaveStarted() {
        var launcher = Launcher.of(2).timeout(KILL_TIMEOUT);
        var e = assertThrows(RankFailure.class, () -> launcher.run(FaultyTraining.class, ""));
        assertEquals(1, e.rank());
        assertTrue(e.getMessage().startsWith("rank 1 of 2: ArithmeticException: no gradient today"), e.getMessage());
    }

    /** Rank 0 has ended, rank 1 hangs, and rank 2 waits for it in a subgroup. */
    public static final class WaitsToLeave implements RankProgram<String, Integer> {
        @Override
        public Integer run(ProcessGroup group, String argument) throws Exception {
            ProcessGroup some = group.split(group.rank() == 0 ? 0 : 1);
            if (group.rank() == 1) {
                Thread.sleep(600_000);
            } else if (group.rank() == 2) {
                some.barrier();
            } else {
                Thread.sleep(1_500);
            }
            return 0;
        }
    }

    @Test
    void aRankThatWaitsForTheEndOfTheGroupIsNotNamed() {
        RankFailure failure = assertThrows(
                RankFailure.class,
                () -> Launcher.of(3).timeout(Duration.ofSeconds(3)).run(WaitsToLeave.class, ""));
        assertEquals(1, failure.rank(), failure.getMessage());
    }

    /** The last all-reduce of rank 1 differs, after calls whose order was compared before; rank 2 computes. */
    public static final class DivergesAtTheEnd implements RankProgram<String, Integer> {
        @Override
        public Integer run(ProcessGroup group, String argument) throws Exception {
            try (var scope = MemoryScope.open()) {
                Tensor x = torch.ones(new long[] {4}, Device.cpu().options(DType.FLOAT32));
                Reduction last = group.rank() == 1 ? Reduction.MAX : Reduction.SUM;
                for (Reduction reduction :
                        List.of(Reduction.SUM, Reduction.SUM, Reduction.MAX, Reduction.MAX, Reduction.SUM, last)) {
                    group.allReduce(x, reduction);
                }
            }
            if (group.rank() == 2) {
                Thread.sleep(600_000);
            }
            return 0;
        }
    }

    @Test
    void aRankThatComputesIsNotNamedForADivergence() {
        RankFailure failure = assertThrows(
                RankFailure.class,
                () -> Launcher.of(3).timeout(Duration.ofSeconds(20)).run(DivergesAtTheEnd.class, ""));
        assertNotEquals(2, failure.rank(), failure.getMessage());
        requireContains(
                failure.getMessage(),
                "collective 6 is all-reduce (",
                "all-reduce (sum) of fp32 [4] on rank ",
                "all-reduce (max) of fp32 [4] on rank 1");
    }

    /** Rank 1 is interrupted, so that its second barrier fails, and rank 0 waits for it. */
    public static final class IsInterrupted implements RankProgram<String, Integer> {
        @Override
        public Integer run(ProcessGroup group, String argument) {
            group.barrier();
            if (group.rank() == 1) {
                Thread.currentThread().interrupt();
            }
            group.barrier();
            return 0;
        }
    }

    @Test
    void anInterruptedRankIsNamed() {
        RankFailure failure = assertThrows(
                RankFailure.class, () -> Launcher.of(2).timeout(KILL_TIMEOUT).run(IsInterrupted.class, ""));
        assertEquals("rank 1 of 2: interrupted during a request to the store", failure.getMessage());
    }

    public static final class WithoutMessage implements RankProgram<String, Integer> {
        @Override
        public Integer run(ProcessGroup group, String argument) {
            throw new IllegalArgumentException();
        }
    }

    @Test
    void anExceptionWithoutAMessageIsReported() {
        try (var port = ReservedPort.any()) {
            RankFailure failure = assertThrows(
                    RankFailure.class,
                    () -> Launcher.joining(World.local(0, 1, port.number()))
                            .timeout(Duration.ofSeconds(5))
                            .run(WithoutMessage.class, ""));
            assertTrue(failure.getMessage().contains("IllegalArgumentException"), failure.getMessage());
        }
    }

    /** Fails on an interrupted thread. */
    public static final class FailsInterrupted implements RankProgram<String, Integer> {
        @Override
        public Integer run(ProcessGroup group, String argument) {
            Thread.currentThread().interrupt();
            throw new IllegalArgumentException("no data");
        }
    }

    @Test
    void aRankThatJoinedAndWasInterruptedReportsItsFailure() throws IOException {
        try (var port = ReservedPort.any()) {
            Launcher launcher =
                    Launcher.joining(World.local(0, 1, port.number())).timeout(Duration.ofSeconds(5));
            RankFailure failure = assertThrows(RankFailure.class, () -> launcher.run(FailsInterrupted.class, ""));
            assertTrue(Thread.interrupted(), "the interrupt is kept");
            assertEquals("rank 0 of 1: no data", failure.getMessage());
            Files.delete(failure.report());
        }
    }

    @Test
    void anInterruptedRunLeavesNoProcess() throws Exception {
        var output = new RankOutput();
        var interrupted = new CompletableFuture<Throwable>();
        var run = new Thread(() -> {
            try {
                Launcher.of(2).output(output.stream()).run(EndlessAllReduce.class, "never");
            } catch (Throwable e) {
                interrupted.complete(e);
            }
        });
        run.start();
        while (output.pids().size() < 2) {
            Thread.sleep(20);
        }
        run.interrupt();
        assertInstanceOf(InterruptedException.class, interrupted.get(120, TimeUnit.SECONDS));
        for (long pid : output.pids()) {
            assertFalse(isAlive(pid), "rank's process " + pid + " is left");
        }
    }

    /**
     * Is quiet for longer than the timeout, without output or collectives, and then stops its process if asked to. A
     * second rank computes meanwhile.
     */
    public static final class FallsSilent implements RankProgram<String, String> {
        @Override
        public String run(ProcessGroup group, String then) throws Exception {
            if (group.rank() == 1) {
                Thread.sleep(600_000);
            }
            Thread.sleep(QUIET_TIMEOUT.plusSeconds(4).toMillis());
            System.out.println("still here");
            if (then.equals("stop")) {
                EndlessAllReduce.signalItself("STOP");
            }
            return "done";
        }
    }

    private static List<String> quietRank() {
        try {
            return Launcher.of(1).timeout(QUIET_TIMEOUT).run(FallsSilent.class, "");
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void aRankMayBeQuietForLongerThanTheTimeoutUnlessItsProcessIsStopped() throws IOException {
        assertEquals(List.of("done"), OF_QUIET_RANK.join());
        RankFailure e = TOGETHER.get("falls silent").join();
        requireContains(e.getMessage(), "rank 0 of 2: no heartbeat for 5 s; it does not respond");
        requireContains(Files.readString(e.report()), "rank 1: it is at FallsSilent.run (FailingWellTest.java:");
        Files.delete(e.report());
        assertEquals("[0] still here\n", OF_SILENT_RANK.toString(StandardCharsets.UTF_8));
    }

    /** Locks a cache like a process that never finishes unpacking its libraries. */
    private static FileChannel unpackingForever(Path folder) throws IOException {
        var lock =
                FileChannel.open(folder.resolve("cs336.lock"), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        lock.lock();
        return lock;
    }

    /** Returns the environment of a rank that loads its libraries from this cache. */
    private static Map<String, String> cacheVariables(Path folder) {
        return Map.of("JAVA_TOOL_OPTIONS", "-Dorg.bytedeco.javacpp.cachedir=" + folder);
    }

    /** Waits until a process has {@code number} children that are not in {@code ignored}, and returns them. */
    private static List<ProcessHandle> children(ProcessHandle of, int number, List<ProcessHandle> ignored)
            throws InterruptedException {
        while (true) {
            List<ProcessHandle> found =
                    of.children().filter(child -> !ignored.contains(child)).toList();
            if (found.size() == number) {
                return found;
            }
            Thread.sleep(20);
        }
    }

    /** Runs two ranks, of which one loads its libraries forever, and checks that none is left. */
    private static RankFailure loadingFailure() {
        Map<String, String> hanging = cacheVariables(cache.resolve("first"));
        String marker = cache + "/of-the-other-rank";
        var launcher = Launcher.of(2)
                .loadingTimeout(Duration.ofSeconds(LOADING_S))
                .environment(rank -> rank == 1 ? hanging : Map.of("MARKER", marker));
        try (var lock = unpackingForever(cache.resolve("first"))) {
            long start = System.nanoTime();
            var failure = WaitingLaunches.inBackground(
                    () -> assertThrows(RankFailure.class, () -> launcher.run(Hello.class, new String[0])));
            List<ProcessHandle> ranks = List.of(childWith(marker), childWith(hanging.get("JAVA_TOOL_OPTIONS")));
            RankFailure e = failure.join();
            double seconds = (System.nanoTime() - start) / 1e9;
            assertTrue(seconds < LOADING_S + BOUND_S, "took " + seconds + " s");
            for (var rank : ranks) {
                assertFalse(rank.isAlive(), "rank's process " + rank.pid() + " is left");
            }
            return e;
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Waits until this process has a child whose environment contains a text, and returns it. */
    private static ProcessHandle childWith(String text) throws InterruptedException {
        while (true) {
            for (ProcessHandle child : ProcessHandle.current().children().toList()) {
                try {
                    if (Files.readString(Path.of("/proc/" + child.pid() + "/environ"), StandardCharsets.ISO_8859_1)
                            .contains(text + "\0")) {
                        return child;
                    }
                } catch (IOException e) {
                    // The child has just ended.
                }
            }
            Thread.sleep(20);
        }
    }

    @Test
    void aRankThatHangsWhileLoadingIsNamedWithinTheLoadingTimeout() {
        RankFailure e = TOGETHER.get("loads forever").join();
        boolean isAlone = e.rank() == 1; // on a busy machine the other rank may take as long
        assertEquals(
                "rank " + e.rank() + " of 2: native libraries not loaded within " + LOADING_S + " s"
                        + (isAlone ? "" : ", nor by rank 1") + "; raise the loading timeout",
                e.getMessage());
    }

    @Test
    void theLoadingTimeoutIsAnOptionOfTheCommand() throws Exception {
        Path second = Files.createDirectory(cache.resolve("second"));
        try (var lock = unpackingForever(second)) {
            Process command = LauncherTest.launch(
                    cacheVariables(second), "--processes", "1", "--loading-timeout", "3", Hello.class.getName());
            List<ProcessHandle> ranks = children(command.toHandle(), 1, List.of());
            requireContains(requireEnd(1, command), "cs336: rank 0 of 1: native libraries not loaded within 3 s");
            for (var rank : ranks) {
                assertFalse(rank.isAlive(), "rank's process " + rank.pid() + " is left");
            }
        }
    }

    /** Runs collectives that differ between ranks, each in its own group; after a failure the next group works. */
    public static final class Disagreements implements RankProgram<String, LinkedHashMap<String, String>> {
        private interface GroupCalls {
            void run(ProcessGroup group);
        }

        @Override
        public LinkedHashMap<String, String> run(ProcessGroup all, String folder) {
            boolean first = all.rank() == 0;
            var cases = new LinkedHashMap<String, GroupCalls>();
            cases.put("shape", group -> allReduce(group, DType.FLOAT32, first ? 3 : 4));
            cases.put("dtype", group -> allReduce(group, first ? DType.FLOAT32 : DType.BFLOAT16, 3));
            cases.put("operation", group -> {
                if (first) {
                    allReduce(group, DType.FLOAT32, 3);
                } else {
                    group.broadcast(ones(DType.FLOAT32, 3), 0);
                }
            });
            cases.put("order", group -> {
                allReduce(group, DType.FLOAT32, 3);
                allReduce(group, DType.FLOAT32, 500);
                allReduce(group, DType.FLOAT32, first ? 3 : 500);
                allReduce(group, DType.FLOAT32, first ? 500 : 3);
                group.barrier();
            });
            cases.put("count", group -> {
                for (int i = 0; i < (first ? 3 : 2); i++) {
                    allReduce(group, DType.FLOAT32, 3);
                }
                group.close();
            });
            cases.put("count at a barrier", group -> {
                group.barrier();
                for (int i = 0; i < (first ? 2 : 1); i++) {
                    allReduce(group, DType.FLOAT32, 2);
                }
                group.barrier();
            });
            cases.put("sharded optimizer", group -> {
                var parameters = Map.of("w", ones(DType.FLOAT32, 3));
                try (var optimizer = new ShardedOptimizer<>(
                        parameters, AdamW::new, AdamWSettings.of(0.1), group, Sharding.allGather(1))) {
                    for (int i = 0; i < (first ? 4 : 3); i++) {
                        optimizer.step();
                    }
                }
            });
            cases.put("files", Disagreements::useFiles);
            cases.put("none", group -> {
                allReduce(group, DType.FLOAT32, 3);
                group.close();
            });
            var messages = new LinkedHashMap<String, String>();
            cases.forEach((name, calls) -> {
                try (var scope = MemoryScope.open()) {
                    calls.run(next(all, name.equals("none") ? Path.of(folder, name) : null));
                    messages.put(name, "");
                } catch (CollectiveFailure e) {
                    messages.put(name, e.getMessage());
                }
                all.barrier();
            });
            return messages;
        }

        /** Rank 0 works on files for longer than the timeout, and then fails; all ranks get its exception. */
        private static void useFiles(ProcessGroup group) {
            var ran = new AtomicBoolean();
            WholeFile.FileAction slow = () -> {
                assertDoesNotThrow(() -> Thread.sleep(TIMEOUT.toMillis() + 500));
                ran.set(true);
            };
            assertDoesNotThrow(() -> FileWork.onRankZero(group, slow));
            assertEquals(group.rank() == 0, ran.get());
            WholeFile.FileAction missing = () -> {
                throw new NoSuchFileException("/missing");
            };
            var file = assertThrows(IOException.class, () -> FileWork.onRankZero(group, missing));
            assertEquals("there is no file or folder /missing", file.getMessage());
            var argument = assertThrows(
                    IllegalArgumentException.class,
                    () -> FileWork.onAllRanks(group, () -> {
                        if (group.rank() == 1) {
                            throw new IllegalArgumentException("of rank 1");
                        }
                    }));
            assertEquals("of rank 1", argument.getMessage());
            group.close();
        }

        /** Joins another group of the same ranks, through a file or a free port of rank 0. */
        private static ProcessGroup next(ProcessGroup all, Path file) {
            if (file != null) {
                return ProcessGroup.join(all.world(), CollectiveBackend.GLOO, TIMEOUT, file);
            }
            try (var port = ReservedPort.any()) {
                int number = all.allGather(port.number()).get(0);
                return ProcessGroup.join(World.local(all.rank(), all.size(), number), CollectiveBackend.GLOO, TIMEOUT);
            }
        }

        /** Runs an all-reduce; if it fails, a second {@code await} must throw the same exception. */
        private static void allReduce(ProcessGroup group, DType dtype, long length) {
            PendingCollective sum = group.allReduceAsync(ones(dtype, length), Reduction.SUM);
            try {
                sum.await();
            } catch (CollectiveFailure e) {
                assertSame(e, assertThrows(CollectiveFailure.class, sum::await));
                throw e;
            }
        }
    }

    @Test
    void differentCollectivesAreNamedOnBothRanksAndTheNextGroupAndTheNextRunWork(@TempDir Path folder)
            throws Exception {
        // This run follows the failed ones of startTogether().
        List<LinkedHashMap<String, String>> messages = Launcher.of(2).run(Disagreements.class, folder.toString());
        messages.forEach(of -> of.forEach((name, message) -> System.out.println(name + ": " + message)));
        for (int rank = 0; rank < 2; rank++) {
            Map<String, String> of = messages.get(rank);
            requireContains(of.get("shape"), "collective 1 is", "of fp32 [3] on rank 0", "of fp32 [4] on rank 1");
            requireContains(of.get("dtype"), "of fp32 [3] on rank 0", "of bf16 [3] on rank 1");
            requireContains(
                    of.get("operation"),
                    "all-reduce (sum) of fp32 [3] on rank 0",
                    "broadcast (root 0) of fp32 [3] on rank 1");
            requireContains(of.get("order"), "collective 3 is", "fp32 [3] on rank 0", "fp32 [500] on rank 1");
            String counts = "rank " + rank + " has called " + (3 - rank) + " collectives, rank " + (1 - rank) + " "
                    + (2 + rank);
            requireContains(of.get("count"), counts);
            requireContains(of.get("sharded optimizer"), rank == 0 ? "all-gather of fp32 [8], failed on rank 0" : "");
            requireContains(
                    of.get("count at a barrier"),
                    "collective 3 is",
                    "all-reduce (sum) of fp32 [2] on rank 0",
                    "barrier of int64 [2] on rank 1");
            assertEquals("", of.get("none"));
            assertEquals("", of.get("files"));
        }
    }

    private static void requireContains(String message, String... parts) {
        for (String part : parts) {
            assertTrue(message.contains(part), "\"" + message + "\" has no " + part);
        }
    }

    /** Starts a rank of {@link Hello} like torchrun, to wait in vain for {@link #SHORT_TIMEOUT}. */
    private static Process hello(int rank, int size, int port) throws IOException {
        return LauncherTest.launch(
                torchrun(rank, size, port),
                "--timeout",
                String.valueOf(SHORT_TIMEOUT.toSeconds()),
                Hello.class.getName());
    }

    private static Map<String, String> torchrun(int rank, int size, int port) {
        return Map.of(
                "RANK", "" + rank,
                "WORLD_SIZE", "" + size,
                "LOCAL_RANK", "" + rank,
                "MASTER_ADDR", "127.0.0.1",
                "MASTER_PORT", "" + port);
    }

    /** Waits for the end of a process, checks its exit code and returns its output. */
    private static String requireEnd(int exitCode, Process process) {
        try {
            var said = WaitingLaunches.inBackground(() -> {
                try {
                    return new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
            String all =
                    said.orTimeout((long) BOUND_S + LOADING_S, TimeUnit.SECONDS).join();
            process.onExit().orTimeout(120, TimeUnit.SECONDS).join();
            System.out.print(all);
            assertEquals(exitCode, process.exitValue(), all);
            return all;
        } finally {
            process.destroyForcibly();
        }
    }

    @Test
    void ranksThatDoNotArriveAreNamed() throws Exception {
        try (var port = ReservedPort.any();
                var unused = ReservedPort.any()) {
            Process rank0 = hello(0, 4, port.number());
            Process rank1 = hello(1, 4, port.number());
            Process orphan = hello(1, 2, unused.number());
            String said = requireEnd(3, rank0); // rank 1 is missing too if it starts seconds after rank 0
            assertTrue(
                    said.matches("(?s).*cs336: rank 0 of 4: ranks (1, )?2, 3 of 4 did not arrive within 1 s\n.*"),
                    said);
            String other = requireEnd(3, rank1);
            if (!said.contains("ranks 1,")) {
                requireContains(other, "cs336: rank 1 of 4: ranks 2, 3 of 4 did not arrive within 1 s\n");
            }
            String lost = requireEnd(3, orphan);
            requireContains(
                    lost,
                    "cs336: rank 1 of 2: rank 1 could not reach rank 0 at 127.0.0.1:" + unused.number()
                            + " within 1 s: ");
            assertFalse(lost.contains("1 s: null"), lost);
        }
    }

    @Test
    void duplicateRanksAndDifferentWorldSizesAreErrors() throws Exception {
        try (var port = ReservedPort.any();
                var other = ReservedPort.any()) {
            var same = joiningInBackground(World.local(1, 3, port.number()));
            var again = joiningInBackground(World.local(1, 3, port.number()));
            joining(World.local(0, 3, port.number()));
            requireContains(
                    same.get() + again.get(), "rank 1 of 3 is already registered: two processes have this rank");
            var three = joiningInBackground(World.local(1, 3, other.number()));
            requireContains(
                    joining(World.local(0, 2, other.number())),
                    "world size must be equal on all ranks; it is 2 on rank 0 and 3 on rank 1");
            three.get();
        }
    }

    @Test
    void aPortInUseEndsAllRanks() throws Exception {
        try (var taken = new ServerSocket(0)) { // which accepts connections and never responds
            Process rank0 = hello(0, 2, taken.getLocalPort());
            Process rank1 = hello(1, 2, taken.getLocalPort());
            requireContains(
                    requireEnd(3, rank0),
                    "cs336: rank 0 of 2: rank 0 cannot listen at port " + taken.getLocalPort()
                            + ": the port is in use");
            requireContains(
                    requireEnd(3, rank1),
                    "cs336: rank 1 of 2: rank 1 could not reach rank 0 at 127.0.0.1:" + taken.getLocalPort(),
                    "the listener does not respond; another program may use the port");
        }
    }

    @Test
    void ranksAndWorldSizesOutOfRangeAreInvalidArguments() throws Exception {
        Process rank = hello(2, 2, 29_500);
        Process world = hello(0, 0, 29_500);
        requireContains(requireEnd(2, rank), "RANK must be from 0 to 1, not 2");
        requireContains(requireEnd(2, world), "WORLD_SIZE must be at least 1, not 0");
    }

    @Test
    void ncclWithoutGpusIsAnError() {
        assumeTrue(Device.cudaCount() == 0);
        var launcher = Launcher.of(2).backend(CollectiveBackend.NCCL).timeout(KILL_TIMEOUT);
        var e = assertThrows(RankFailure.class, () -> launcher.run(Hello.class, new String[0]));
        requireContains(e.getMessage(), "of 2: device cuda:0 is not available");
        String[] arguments = {"--processes", "1", "--device", "cuda", "Hello"};
        assertEquals(2, new CommandLine(new LaunchCommand()).execute(arguments), "exit code before ranks start");
    }

    @Test
    void backendAndDeviceAreOptionsOfARankThatJoins() throws IOException {
        Process rank = LauncherTest.launch(
                torchrun(0, 1, 29_500), "--backend", "nccl", "--device", "cpu", Hello.class.getName());
        requireContains(requireEnd(1, rank), "cs336: rank 0 of 1: device must be cuda for nccl, not cpu");
    }

    /** Joins a group, and returns the error message or {@code joined}. */
    private static String joining(World world) {
        try {
            ProcessGroup.join(world, CollectiveBackend.GLOO, TIMEOUT).abandon();
            return "joined";
        } catch (CollectiveFailure e) {
            return e.getMessage();
        }
    }

    /** Joins a group on another thread. */
    private static CompletableFuture<String> joiningInBackground(World world) {
        return WaitingLaunches.inBackground(() -> joining(world));
    }

    /** A launcher in its own process, to which a test sends signals. */
    public static final class EndlessLaunch {
        public static void main(String[] args) throws Exception {
            Launcher.of(2).run(EndlessAllReduce.class, "never");
        }
    }

    /** Does not use the signal INT, which processes in the background of a script ignore. */
    @Test
    void ranksEndWithTheirTerminatedOrKilledLauncher() {
        var terminated = WaitingLaunches.inBackground(() -> requireRanksEndAfter("TERM"));
        requireRanksEndAfter("KILL");
        terminated.join();
    }

    /** Sends a signal to a launcher and checks that its ranks end. Returns null. */
    private static Void requireRanksEndAfter(String signal) {
        try {
            Process launcher =
                    TestJvm.of(EndlessLaunch.class).redirectErrorStream(true).start();
            var ranks = new ArrayList<Long>();
            try (var lines = launcher.inputReader()) {
                while (ranks.size() < 2) {
                    Matcher pid = Pattern.compile("\\[\\d] pid (\\d+)").matcher(lines.readLine());
                    if (pid.matches()) {
                        ranks.add(Long.parseLong(pid.group(1)));
                    }
                }
                String stopped = "kill -STOP " + ranks.get(1) + "; "; // it cannot end itself
                new ProcessBuilder("sh", "-c", stopped + "kill -" + signal + " " + launcher.pid())
                        .start()
                        .waitFor();
                assertTrue(launcher.waitFor(120, TimeUnit.SECONDS));
                assertNotEquals(0, launcher.exitValue());
            }
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(120);
            while (ranks.stream().anyMatch(FailingWellTest::isAlive) && System.nanoTime() < end) {
                Thread.sleep(20);
            }
            for (long pid : ranks) {
                assertFalse(isAlive(pid), signal + " left the rank's process " + pid);
            }
            return null;
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** {@link EndlessAllReduce} as a program of the command {@code launch}. */
    public static final class EndlessAllReduceCommand implements RankProgram<String[], Integer> {
        @Override
        public Integer run(ProcessGroup group, String[] arguments) throws Exception {
            return new EndlessAllReduce().run(group, arguments[0]);
        }
    }

    @Test
    void exitCodesOfTorchrunProcessesShowWhichRankFailed() throws Exception {
        try (var port = ReservedPort.any()) {
            var ranks = new ArrayList<Process>();
            for (int rank = 0; rank < 2; rank++) {
                ranks.add(LauncherTest.launch(
                        torchrun(rank, 2, port.number()),
                        "--timeout",
                        String.valueOf(KILL_TIMEOUT.toSeconds()),
                        EndlessAllReduceCommand.class.getName(),
                        "fails in its backward pass"));
            }
            requireContains(
                    requireEnd(3, ranks.get(0)),
                    "cs336: rank 0 of 2: collective 21, all-reduce (sum) of fp32 [1000], failed on rank 0 of 2",
                    "; first failure: rank 1 of 2: ArithmeticException: no gradient today\n");
            requireContains(
                    requireEnd(1, ranks.get(1)), "cs336: rank 1 of 2: ArithmeticException: no gradient today\n");
        }
    }

    /** Runs all-reduces without end; one rank is disturbed in step 20. Arguments: the rank and the disturbance. */
    public static final class DisturbedAllReduce implements RankProgram<String[], Integer> {
        @Override
        public Integer run(ProcessGroup group, String[] arguments) throws Exception {
            try (var scope = MemoryScope.open()) {
                Tensor t = ones(DType.FLOAT32, 1000);
                for (int step = 0; ; step++) {
                    if (step == 20 && group.rank() == Integer.parseInt(arguments[0])) {
                        EndlessAllReduce.disturb(group, arguments[1]);
                    }
                    group.allReduce(t, Reduction.SUM);
                }
            }
        }
    }

    /** Starts three ranks like torchrun, of which one is disturbed, and returns the output of the others. */
    private static List<String> othersAfter(int rank, String disturbance, Duration timeout) {
        try (var port = ReservedPort.any()) {
            var ranks = new ArrayList<Process>();
            for (int i = 0; i < 3; i++) {
                ranks.add(LauncherTest.launch(
                        torchrun(i, 3, port.number()),
                        "--timeout",
                        String.valueOf(timeout.toSeconds()),
                        DisturbedAllReduce.class.getName(),
                        String.valueOf(rank),
                        disturbance));
            }
            Process disturbed = ranks.remove(rank);
            var said = new ArrayList<String>();
            try {
                for (Process other : ranks) {
                    said.add(requireEnd(3, other));
                    requireOwnReport(said.get(said.size() - 1));
                }
            } finally {
                disturbed.destroyForcibly();
            }
            return said;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Checks the error file of one rank, and deletes it. */
    private static void requireOwnReport(String said) throws IOException {
        Matcher file =
                Pattern.compile("cs336: the last collectives are in (\\S+)").matcher(said);
        assertTrue(file.find(), said);
        requireContains(Files.readString(Path.of(file.group(1))), "    21: all-reduce (sum) of fp32 [1000]\n");
        Files.delete(Path.of(file.group(1)));
    }

    @Test
    void allRanksOfTorchrunNameTheRankThatWasKilled() {
        var afterOne = WaitingLaunches.inBackground(() -> othersAfter(1, "is killed", KILL_TIMEOUT));
        for (String said : othersAfter(0, "is killed", KILL_TIMEOUT)) {
            requireContains(
                    said,
                    "; first failure: rank 0 of 3: its process, which hosts the store, has ended or does not respond\n");
        }
        for (String said : afterOne.join()) {
            requireContains(said, "; first failure: rank 1 of 3: its process has ended or does not respond\n");
        }
    }

    @Test
    void allRanksOfTorchrunNameTheRankThatHangs() {
        for (String said : othersAfter(2, "hangs", TIMEOUT)) {
            requireContains(said, "; first failure: rank 2 of 3: it is at EndlessAllReduce.disturb (FailingWellTest");
        }
    }
}
