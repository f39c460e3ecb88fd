package cs336.distributed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Function;
import cs336.torch.MemoryScope;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Whatever goes wrong on one rank ends all of them in time, says which and why, and leaves no process. */
@Timeout(90)
class FailingWellTest {
    static final Duration TIMEOUT = Duration.ofSeconds(3);
    static final double BOUND_S = TIMEOUT.toSeconds() + 5;

    /** All-reduces without end; rank 1 stops taking part in the way it is told. */
    public static final class Disturbed implements RankProgram<String, Integer> {
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

        private static void disturb(ProcessGroup group, String how) throws Exception {
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

        /** With the shell's own kill: the program of that name is missing in small containers. */
        private static void signalItself(String signal) throws Exception {
            new ProcessBuilder("sh", "-c", "kill -" + signal + " $PPID").start().waitFor();
            Thread.sleep(600_000); // a signal takes its time
        }
    }

    /** A function whose gradient is refused. */
    private static final class Faulty extends Function {
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

    private final ByteArrayOutputStream output = new ByteArrayOutputStream();
    private volatile long now;

    /** Runs two ranks, of which one fails, and sees to what holds of every failure. */
    private RankFailure failure(String how) {
        var printed = new PrintStream(output, true, StandardCharsets.UTF_8) {
            @Override
            public void println(String line) {
                if (line.equals("[1] now")) now = System.nanoTime();
                super.println(line);
            }
        };
        var launcher = Launcher.of(2).timeout(TIMEOUT).output(printed);
        var e = assertThrows(RankFailure.class, () -> launcher.run(Disturbed.class, how));
        double seconds = (System.nanoTime() - now) / 1e9;
        System.out.printf("%s: %.1f s, %s%n", how, seconds, e.getMessage());
        assertTrue(seconds < BOUND_S, "took " + seconds + " s");
        List<Long> pids = Pattern.compile("\\[\\d] pid (\\d+)")
                .matcher(output.toString(StandardCharsets.UTF_8))
                .results()
                .map(m -> Long.parseLong(m.group(1)))
                .toList();
        assertEquals(2, pids.size());
        for (long pid : pids) assertFalse(isAlive(pid), "rank's process " + pid + " is left");
        return e;
    }

    static boolean isAlive(long pid) {
        return ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false);
    }

    @Test
    void aRankKilledAmidCollectivesIsNamedWithItsSignal() {
        var e = failure("is killed");
        assertEquals(1, e.rank());
        assertTrue(e.getMessage().startsWith("rank 1 of 2: its process was ended by signal 9"), e.getMessage());
    }

    @Test
    void aRankThatHangsIsNamedWithThePlaceWhereItDoes() {
        var e = failure("hangs");
        assertEquals(1, e.rank());
        assertTrue(
                e.getMessage()
                        .matches(
                                "rank 1 of 2: it is at Disturbed\\.disturb \\(FailingWellTest.java:\\d+\\), called at .*"),
                e.getMessage());
        assertTrue(
                e.getMessage()
                        .contains(
                                "after 20 collectives. collective 21, all-reduce (sum) of fp32 [1000], failed on rank 0"),
                e.getMessage());
    }

    @Test
    void aRankThatIsStoppedIsNamedAsTheOneThatGivesNoAnswer() {
        var e = failure("is stopped");
        assertEquals(1, e.rank());
        assertTrue(e.getMessage().startsWith("rank 1 of 2: it gives no answer. collective 21,"), e.getMessage());
    }

    @Test
    void anExceptionInOneRanksBackwardPassEndsAll() {
        var e = failure("fails in its backward pass");
        assertEquals(1, e.rank());
        assertTrue(e.getMessage().startsWith("rank 1 of 2: ArithmeticException: no gradient today"), e.getMessage());
        assertTrue(e.getMessage().contains("FailingWellTest.java"), e.getMessage());
    }

    /** Prints for longer than it may be silent, and is silent then. */
    public static final class FallsSilent implements RankProgram<String, String> {
        @Override
        public String run(ProcessGroup group, String argument) throws Exception {
            for (int i = 0; i < 8; i++) {
                System.out.println("line " + i);
                Thread.sleep(500);
            }
            Thread.sleep(600_000);
            return "";
        }
    }

    @Test
    void aRankMayWorkOnWhileItShowsSignsOfLifeAndIsEndedWhenItFallsSilent() {
        var printed = new PrintStream(output, true, StandardCharsets.UTF_8);
        var launcher = Launcher.of(1).timeout(Duration.ofSeconds(1)).output(printed);
        var e = assertThrows(RankFailure.class, () -> launcher.run(FallsSilent.class, ""));
        requireParts(
                e.getMessage(),
                "rank 0 of 1: no sign of life for 3 s",
                "it is at FallsSilent.run (FailingWellTest.java:");
        requireParts(output.toString(StandardCharsets.UTF_8), "[0] line 7\n");
    }

    /** Calls that differ between ranks, each in a group of its own: after a failure the next one works. */
    public static final class Disagreements implements RankProgram<String, LinkedHashMap<String, String>> {
        private interface Calls {
            void run(ProcessGroup group);
        }

        @Override
        public LinkedHashMap<String, String> run(ProcessGroup all, String folder) {
            boolean first = all.rank() == 0;
            var cases = new LinkedHashMap<String, Calls>();
            cases.put("shape", group -> allReduce(group, DType.FLOAT32, first ? 3 : 4));
            cases.put("dtype", group -> allReduce(group, first ? DType.FLOAT32 : DType.BFLOAT16, 3));
            cases.put("operation", group -> {
                if (first) allReduce(group, DType.FLOAT32, 3);
                else group.broadcast(ones(DType.FLOAT32, 3), 0);
            });
            cases.put("order", group -> {
                allReduce(group, DType.FLOAT32, 3);
                allReduce(group, DType.FLOAT32, 500);
                allReduce(group, DType.FLOAT32, first ? 3 : 500);
                allReduce(group, DType.FLOAT32, first ? 500 : 3);
                group.barrier();
            });
            cases.put("count", group -> {
                for (int i = 0; i < (first ? 3 : 2); i++) allReduce(group, DType.FLOAT32, 3);
                group.close();
            });
            cases.put("count at a barrier", group -> {
                group.barrier();
                for (int i = 0; i < (first ? 2 : 1); i++) allReduce(group, DType.FLOAT32, 2);
                group.barrier();
            });
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

        /** A group of the same ranks, which meet in a file or at a port that rank 0 has found free. */
        private static ProcessGroup next(ProcessGroup all, Path file) {
            if (file != null) return ProcessGroup.join(all.world(), Backend.GLOO, TIMEOUT, file);
            int port = all.allGather(freePort()).get(0);
            return ProcessGroup.join(World.local(all.rank(), all.size(), port), Backend.GLOO, TIMEOUT);
        }

        private static void allReduce(ProcessGroup group, DType dtype, long length) {
            group.allReduce(ones(dtype, length), Reduction.SUM);
        }
    }

    @Test
    void callsThatDifferBetweenRanksAreNamedOnBothAndTheNextGroupWorks(@TempDir Path folder) throws Exception {
        List<LinkedHashMap<String, String>> messages = Launcher.of(2).run(Disagreements.class, folder.toString());
        messages.forEach(of -> of.forEach((name, message) -> System.out.println(name + ": " + message)));
        for (int rank = 0; rank < 2; rank++) {
            Map<String, String> of = messages.get(rank);
            requireParts(of.get("shape"), "collective 1 is", "of fp32 [3] on rank 0", "of fp32 [4] on rank 1");
            requireParts(of.get("dtype"), "of fp32 [3] on rank 0", "of bf16 [3] on rank 1");
            requireParts(
                    of.get("operation"),
                    "all-reduce (sum) of fp32 [3] on rank 0",
                    "broadcast (root 0) of fp32 [3] on rank 1");
            requireParts(of.get("order"), "collective 3 is", "fp32 [3] on rank 0", "fp32 [500] on rank 1");
            String counts = "rank " + rank + " has called " + (3 - rank) + " collectives, rank " + (1 - rank) + " "
                    + (2 + rank);
            requireParts(of.get("count"), counts);
            requireParts(
                    of.get("count at a barrier"),
                    "collective 3 is",
                    "all-reduce (sum) of fp32 [2] on rank 0",
                    "barrier of int64 [2] on rank 1");
            assertEquals("", of.get("none"));
        }
    }

    private static void requireParts(String message, String... parts) {
        for (String part : parts) assertTrue(message.contains(part), "\"" + message + "\" has no " + part);
    }

    @Test
    void ranksThatDoNotArriveAreNamed() throws Exception {
        int port = freePort();
        var late = joiningBeside(World.local(1, 4, port));
        requireParts(joining(World.local(0, 4, port)), "ranks 2, 3 of 4 did not arrive within 3 s");
        assertNotEquals("joined", late.get()); // the store may have gone with rank 0
        requireParts(
                joining(World.local(1, 2, freePort())), "rank 1 did not reach rank 0 at 127.0.0.1:", " within 3 s");
    }

    @Test
    void twoProcessesOfOneRankAndWorldsOfDifferentSizesAreAnError() throws Exception {
        int port = freePort();
        var same = joiningBeside(World.local(1, 3, port));
        var again = joiningBeside(World.local(1, 3, port));
        joining(World.local(0, 3, port));
        requireParts(same.get() + again.get(), "rank 1 of 3 is there already: two processes have the same rank");
        int other = freePort();
        var three = joiningBeside(World.local(1, 3, other));
        requireParts(joining(World.local(0, 2, other)), "the world has 2 ranks for rank 0, but 3 for rank 1");
        three.get();
    }

    @Test
    void aPortInUseIsNamed() throws Exception {
        try (var taken = new ServerSocket(0)) {
            requireParts(
                    joining(World.local(0, 2, taken.getLocalPort())),
                    "rank 0 cannot listen at port " + taken.getLocalPort() + ": it is in use");
        }
    }

    @Test
    void ncclWithoutACardIsAnErrorBeforeAnythingIsJoined() {
        assumeTrue(Device.cudaCount() == 0);
        var e = assertThrows(
                IllegalArgumentException.class,
                () -> ProcessGroup.join(World.local(0, 1, 29_500), Backend.NCCL, TIMEOUT));
        requireParts(e.getMessage(), "cuda:0 asked for");
    }

    /** Joins and tells what came of it. */
    private static String joining(World world) {
        try {
            ProcessGroup.join(world, Backend.GLOO, TIMEOUT).abandon();
            return "joined";
        } catch (CollectiveFailure e) {
            return e.getMessage();
        }
    }

    /** The same on a thread of its own. */
    private static CompletableFuture<String> joiningBeside(World world) {
        return CompletableFuture.supplyAsync(() -> joining(world), task -> new Thread(task).start());
    }

    private static int freePort() {
        try (var socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A launcher in a process of its own, for signals to be sent to. */
    public static final class EndlessLaunch {
        public static void main(String[] args) throws Exception {
            Launcher.of(2).run(Disturbed.class, "never");
        }
    }

    @Test
    void ranksEndWithTheirLauncherWhetherItIsInterruptedOrKilled() throws Exception {
        for (String signal : List.of("INT", "KILL")) {
            var command = List.of(
                    Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "-XX:TieredStopAtLevel=1",
                    EndlessLaunch.class.getName());
            var builder = new ProcessBuilder(command).redirectErrorStream(true);
            builder.environment().put("CLASSPATH", System.getProperty("java.class.path"));
            Process launcher = builder.start();
            var ranks = new ArrayList<Long>();
            try (var lines = launcher.inputReader()) {
                while (ranks.size() < 2) {
                    Matcher pid = Pattern.compile("\\[\\d] pid (\\d+)").matcher(lines.readLine());
                    if (pid.matches()) ranks.add(Long.parseLong(pid.group(1)));
                }
                new ProcessBuilder("sh", "-c", "kill -" + signal + " " + launcher.pid())
                        .start()
                        .waitFor();
                assertTrue(launcher.waitFor(5, TimeUnit.SECONDS));
                assertNotEquals(0, launcher.exitValue());
            }
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(5);
            while (ranks.stream().anyMatch(FailingWellTest::isAlive) && System.nanoTime() < end) Thread.sleep(20);
            for (long pid : ranks) assertFalse(isAlive(pid), signal + " left the rank's process " + pid);
        }
    }

    /** The same, from a shell. */
    public static final class DisturbedByCommand implements RankProgram<String[], Integer> {
        @Override
        public Integer run(ProcessGroup group, String[] arguments) throws Exception {
            return new Disturbed().run(group, arguments[0]);
        }
    }

    @Test
    void processesOfTorchrunTellByTheirExitCodesWhichOfThemFailed() throws Exception {
        String port = String.valueOf(freePort());
        var ranks = new ArrayList<Process>();
        for (String rank : List.of("0", "1")) {
            var variables = Map.of(
                    "RANK",
                    rank,
                    "WORLD_SIZE",
                    "2",
                    "LOCAL_RANK",
                    rank,
                    "MASTER_ADDR",
                    "127.0.0.1",
                    "MASTER_PORT",
                    port);
            ranks.add(LauncherTest.launch(
                    variables, "--timeout", "3", DisturbedByCommand.class.getName(), "fails in its backward pass"));
        }
        var said = new ArrayList<String>();
        for (Process rank : ranks) {
            said.add(new String(rank.getInputStream().readAllBytes(), StandardCharsets.UTF_8));
            assertTrue(rank.waitFor(5, TimeUnit.SECONDS));
        }
        assertEquals(List.of(3, 1), ranks.stream().map(Process::exitValue).toList(), said::toString);
        requireParts(
                said.get(0),
                "cs336: rank 0 of 2: collective 21, all-reduce (sum) of fp32 [1000], failed on rank 0 of 2");
        requireParts(said.get(1), "cs336: rank 1 of 2: ArithmeticException: no gradient today\n");
    }
}
