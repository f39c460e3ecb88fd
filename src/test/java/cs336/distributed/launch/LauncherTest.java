package cs336.distributed.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.Main;
import cs336.bench.TestJvm;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.RankWatch;
import cs336.distributed.collectives.ReservedPort;
import cs336.distributed.collectives.World;
import cs336.torch.Torch;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

@Timeout(300)
class LauncherTest {
    /** Prints its position and returns its argument. */
    public static final class Greeting implements RankProgram<String[], String> {
        @Override
        public String run(ProcessGroup group, String[] argument) {
            System.out.println("hello from " + group.rank() + " of " + group.size());
            System.err.println("variable " + System.getenv("GREETING") + ", threads " + Torch.threads());
            return group.world().localRank() + " of " + group.world().localSize() + " here "
                    + Arrays.toString(argument);
        }
    }

    private static final String RESOLVER = "RES_OPTIONS";
    private static final String INTERFACE = "NCCL_SOCKET_IFNAME";

    /** Returns the options of name lookups, and NCCL's network interface. */
    public static final class Variables implements RankProgram<String, ArrayList<String>> {
        @Override
        public ArrayList<String> run(ProcessGroup group, String argument) {
            return new ArrayList<>(Arrays.asList(System.getenv(RESOLVER), System.getenv(INTERFACE)));
        }
    }

    @Test
    void variablesHaveDefaultsUnlessTheUserSetsThem() {
        assertEquals(Map.of(RESOLVER, "timeout:1", INTERFACE, "lo"), Launcher.unlessSet(Map.of("HOME", "/")));
        assertEquals(Map.of(INTERFACE, "lo"), Launcher.unlessSet(Map.of(RESOLVER, "timeout:2")));
        assertEquals(Map.of(RESOLVER, "timeout:1"), Launcher.unlessSet(Map.of(INTERFACE, "eth0")));
    }

    @Test
    void ranksHaveDefaultVariablesUnlessTheirEnvironmentSetsThem() throws Exception {
        Map<String, String> own = Map.of(RESOLVER, "timeout:2", INTERFACE, "eth0");
        var launcher = Launcher.of(2).environment(rank -> rank == 0 ? Map.of() : own);
        Map<String, String> given = System.getenv();
        assertEquals(
                List.of(
                        List.of(given.getOrDefault(RESOLVER, "timeout:1"), given.getOrDefault(INTERFACE, "lo")),
                        List.of("timeout:2", "eth0")),
                launcher.run(Variables.class, ""));
    }

    /** A program that is not public, so another process cannot create it. */
    static final class Hidden implements RankProgram<String, String> {
        @Override
        public String run(ProcessGroup group, String argument) {
            return null;
        }
    }

    /** Returns a value that is not serializable. */
    public static final class Unsendable implements RankProgram<String, Serializable> {
        @Override
        public Serializable run(ProcessGroup group, String argument) {
            return new ArrayList<>(List.of(new Object()));
        }
    }

    /** Throws an error that is not an exception. */
    public static final class Overflowing implements RankProgram<String, String> {
        @Override
        public String run(ProcessGroup group, String argument) {
            throw new StackOverflowError("infinite recursion");
        }
    }

    /** Fails on rank 1 until all ranks have been started again as often as the argument says. */
    public static final class FailsAtFirst implements RankProgram<String[], Integer> {
        @Override
        public Integer run(ProcessGroup group, String[] argument) {
            group.barrier();
            if (group.rank() == 1 && World.restarts() < Integer.parseInt(argument[0])) {
                throw new IllegalStateException("failure " + World.restarts());
            }
            group.barrier();
            return World.restarts();
        }
    }

    @Test
    void aGroupThatFailsAfterItsLastRestartIsAFailure() {
        var launcher = Launcher.of(2).maxRestarts(1);
        var e = assertThrows(RankFailure.class, () -> launcher.run(FailsAtFirst.class, new String[] {"2"}));
        assertTrue(e.getMessage().startsWith("rank 1 of 2: IllegalStateException: failure 1\n"), e.getMessage());
    }

    @Test
    void theCommandStartsAFailedGroupAgain() throws Exception {
        Process process =
                launch(Map.of(), "--processes", "2", "--max-restarts", "3", FailsAtFirst.class.getName(), "1");
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), said);
        assertEquals("""
                cs336: rank 1 of 2: IllegalStateException: failure 0; restart 1 of 3
                [0] 1
                [1] 1
                """, said.replaceAll("; the last collectives are in \\S*/cs336-failure-\\d+.txt", ""));
    }

    /** Is quiet for two seconds after it has said so. */
    public static final class ShortlyQuiet implements RankProgram<String[], String> {
        @Override
        public String run(ProcessGroup group, String[] argument) throws InterruptedException {
            System.out.println("quiet");
            Thread.sleep(2000);
            return "done";
        }
    }

    @Test
    void aRunThatIsStoppedForLongerThanItsTimeoutContinues() throws Exception {
        Process launcher = launch(Map.of(), "--processes", "1", "--timeout", "1", ShortlyQuiet.class.getName());
        try (BufferedReader said = launcher.inputReader()) {
            assertEquals("[0] quiet", said.readLine());
            ProcessHandle rank = launcher.children().findFirst().orElseThrow();
            signal("STOP", launcher.toHandle());
            signal("STOP", rank);
            Thread.sleep(4000); // more than the timeout and the launcher's margin
            signal("CONT", launcher.toHandle());
            Thread.sleep(200);
            signal("CONT", rank);
            assertEquals("[0] done", said.readLine());
            assertEquals(0, launcher.waitFor());
        } finally {
            launcher.descendants().forEach(ProcessHandle::destroyForcibly);
            launcher.destroyForcibly();
        }
    }

    private static void signal(String signal, ProcessHandle process) throws IOException, InterruptedException {
        new ProcessBuilder("sh", "-c", "kill -" + signal + " " + process.pid())
                .start()
                .waitFor();
    }

    @Test
    void anErrorInAJoiningRankIsARankFailure() {
        try (var port = ReservedPort.any()) {
            var launcher = Launcher.joining(World.local(0, 1, port.number()));
            var e = assertThrows(RankFailure.class, () -> launcher.run(Overflowing.class, ""));
            assertTrue(
                    e.getMessage().startsWith("rank 0 of 1: StackOverflowError: infinite recursion"), e.getMessage());
            assertTrue(e.isHere());
            assertEquals(1, e.exitCode());
        }
    }

    @Test
    void aRankThatLostAnotherOneNamesTheFirstFailure() {
        var failed = new RankWorker.Failed("rank 1 does not respond", "", true, true, List.of());
        var first = new RankWatch.FirstFailure(1, "no class Outer$1");
        RankFailure e = RankFailure.here(World.local(0, 2, 29_500), failed, first);
        assertEquals(
                "rank 0 of 2: rank 1 does not respond; first failure: rank 1 of 2: no class Outer$1", e.getMessage());
        assertEquals(List.of(1, 3), List.of(e.rank(), e.exitCode()));
    }

    private static void assertFailed(String reason, boolean isExplained, Throwable thrown) {
        var failed = RankWorker.Failed.of(thrown, null);
        assertEquals(reason, failed.reason());
        String trace = isExplained ? "" : "\n" + thrown.getClass().getName();
        assertTrue(failed.message().startsWith(reason + trace), failed.message());
        assertEquals(isExplained, failed.message().equals(reason), failed.message());
        assertFalse(failed.amongRanks());
    }

    @Test
    void aFailureHasAStackTraceUnlessItsReasonSuffices() {
        assertFailed("steps must be positive", true, new IllegalArgumentException("steps must be positive"));
        assertFailed("IllegalArgumentException", false, new IllegalArgumentException());
        assertFailed("NoSuchFileException: a.bin", true, new NoSuchFileException("a.bin"));
        assertFailed("IllegalStateException: closed", false, new IllegalStateException("closed"));
        assertFailed("out of memory: Java heap space", true, new OutOfMemoryError("Java heap space"));
    }

    @Test
    void theLocationOfARankIsInItsOwnCode() {
        String location = RankWorker.location(null, Thread.currentThread()); // within Thread.getStackTrace
        assertTrue(location.startsWith("is at RankWorker.location (RankWorker.java:"), location);
    }

    @Test
    void restartsAreRefusedForRanksThatJoin() {
        var restart = CommandLine.populateCommand(new RestartOption(), "--max-restarts", "1");
        restart.check(false);
        var e = assertThrows(IllegalArgumentException.class, () -> restart.check(true));
        assertTrue(e.getMessage().startsWith("--max-restarts has no effect on ranks of srun or torchrun"));
        CommandLine.populateCommand(new RestartOption()).check(true);
    }

    @Test
    void aRankThatCannotLoadItsLibrariesIsNamed() {
        var launcher = Launcher.of(2)
                .environment(rank -> rank == 0
                        ? Map.of()
                        : Map.of("JAVA_TOOL_OPTIONS", "-Dorg.bytedeco.javacpp.platform=of-no-machine"));
        var e = assertThrows(RankFailure.class, () -> launcher.run(Greeting.class, new String[0]));
        assertEquals(1, e.rank(), e.getMessage());
    }

    @Test
    void ranksStartWithAColdCacheAndTheirOutputAndValuesAreLabelled(@TempDir Path cache) throws Exception {
        var output = new ByteArrayOutputStream();
        List<String> values = Launcher.of(2)
                .threads(3)
                .environment(rank ->
                        Map.of("GREETING", "v" + rank, "JAVA_TOOL_OPTIONS", "-Dorg.bytedeco.javacpp.cachedir=" + cache))
                .output(new PrintStream(output, true, StandardCharsets.UTF_8))
                .run(Greeting.class, new String[] {"a"});
        assertEquals(List.of("0 of 2 here [a]", "1 of 2 here [a]"), values);
        var lines =
                new TreeSet<>(output.toString(StandardCharsets.UTF_8).lines().toList());
        assertEquals(
                List.of(
                        "[0] hello from 0 of 2",
                        "[0] variable v0, threads 3",
                        "[1] hello from 1 of 2",
                        "[1] variable v1, threads 3"),
                List.copyOf(lines));
        try (var files = Files.list(cache)) {
            assertTrue(files.findAny().isPresent(), "the ranks did not unpack into this cache");
        }
    }

    @Test
    void slurmProcessesBecomeRanks() throws Exception {
        try (var port = ReservedPort.any()) {
            requireRanksOfSlurm(port.number());
        }
    }

    private static void requireRanksOfSlurm(int port) throws Exception {
        var ranks = new ArrayList<Process>();
        for (int rank = 0; rank < 3; rank++) {
            ranks.add(launch(
                    Map.of(
                            "SLURM_PROCID", "" + rank,
                            "SLURM_NTASKS", "3",
                            "SLURM_LOCALID", "" + rank % 2,
                            "SLURM_NODEID", "" + rank / 2,
                            "SLURM_STEP_TASKS_PER_NODE", "2,1",
                            "MASTER_ADDR", "127.0.0.1",
                            "MASTER_PORT", "" + port),
                    "--timeout",
                    "60",
                    Greeting.class.getName(),
                    "--own",
                    "option"));
        }
        for (int rank = 0; rank < 3; rank++) {
            var said = new String(ranks.get(rank).getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertTrue(ranks.get(rank).waitFor(120, TimeUnit.SECONDS));
            assertEquals(0, ranks.get(rank).exitValue(), said);
            String local = rank == 2 ? "0 of 1" : rank + " of 2";
            assertTrue(said.contains("[" + rank + "] hello from " + rank + " of 3\n"), said);
            assertTrue(said.contains("[" + rank + "] variable null, threads "), said); // from standard error
            assertTrue(said.contains("[" + rank + "] " + local + " here [--own, option]\n"), said);
        }
    }

    /** Starts the command in its own process, with environment variables of srun or torchrun. */
    static Process launch(Map<String, String> variables, String... arguments) throws IOException {
        var builder = TestJvm.of(Main.class, "launch").redirectErrorStream(true);
        builder.command().addAll(List.of(arguments));
        // The JVM prints a line for each variable with options.
        String options = "JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|_JAVA_OPTIONS";
        builder.environment()
                .keySet()
                .removeIf(name -> name.matches("(LOCAL_)?RANK|(LOCAL_)?WORLD_SIZE|SLURM_.*|" + options));
        builder.environment().putAll(variables);
        return builder.start();
    }

    @Test
    void theCommandStartsRanksAndReportsInvalidArguments(@TempDir Path folder) {
        String missing = folder.resolve("missing").toString();
        var error = new StringBuilder();
        var command = new CommandLine(new LaunchCommand()).setParameterExceptionHandler((e, args) -> {
            error.append(e.getMessage()).append('\n');
            return 2;
        });
        assertEquals(2, command.execute("--processes", "0", "Greeting"));
        assertEquals(2, command.execute("--processes", "1", "Nothing"));
        assertEquals(2, command.execute("--processes", "1", "Launcher"));
        assertEquals(2, command.execute("--processes", "1", "--max-restarts", "-1", "Hello"));
        assertEquals(2, command.execute("--processes", "1", "--backend", "mpi", "LauncherTest$Greeting"));
        assertEquals(2, command.execute("--processes", "100000", "Hello"));
        assertEquals(2, command.execute("--processes", "2", "ToyTraining"));
        assertEquals(2, command.execute("--processes", "2", "--class-path", missing, "Hello"));
        assertEquals(2, command.execute("--processes", "2", "--class-path", "pom.xml", "Hello"));
        assertEquals(2, command.execute("--processes", "1", "--threads", "0", "Hello"));
        assertEquals(2, command.execute("--processes", "1", "LauncherTest$Hidden"));
        assertEquals(
                List.of(
                        "--processes must be at least 1, not 0",
                        "program must be a fully qualified class name or a class in cs336.distributed.launch or cs336.distributed.bench, not 'Nothing'",
                        "program must be a class that implements RankProgram, not 'Launcher'",
                        "--max-restarts must be at least 0, not -1",
                        "backend 'mpi' is unknown; known: gloo, nccl",
                        "--processes must be at most 128, not 100000",
                        "program must be a RankProgram<String[], …>; 'ToyTraining' takes a ToyTask, which a command line cannot give",
                        "--class-path must consist of existing folders and JAR files, not '" + missing + "'",
                        "--class-path must consist of existing folders and JAR files, not 'pom.xml'",
                        "--threads must be at least 1, not 0",
                        "program cs336.distributed.launch.LauncherTest$Hidden must be a public class with a public no-argument constructor"),
                error.toString().lines().toList());

        var out = new ByteArrayOutputStream();
        PrintStream console = System.out;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        try {
            assertEquals(0, command.execute("--processes", "1", "LauncherTest$Greeting", "--timeout", "x"));
        } finally {
            System.setOut(console);
        }
        assertTrue(out.toString(StandardCharsets.UTF_8).endsWith("[0] 0 of 1 here [--timeout, x]\n"), out::toString);
    }

    /** Compiles a program that returns a record of its own into a folder that is on no class path. */
    private static void compileProgram(Path folder) throws IOException {
        Path source = Files.writeString(folder.resolve("Elsewhere.java"), """
                public final class Elsewhere implements cs336.distributed.launch.RankProgram<String[], Elsewhere.Reply> {
                    public record Reply(int rank, String text) implements java.io.Serializable {}

                    @Override
                    public Reply run(cs336.distributed.collectives.ProcessGroup group, String[] arguments) {
                        return new Reply(group.rank(), arguments[0]);
                    }
                }
                """);
        int result = ToolProvider.getSystemJavaCompiler()
                .run(
                        null,
                        null,
                        null,
                        "-cp",
                        System.getProperty("java.class.path"),
                        "-proc:none",
                        "-d",
                        folder.toString(),
                        source.toString());
        assertEquals(0, result);
    }

    @Test
    void aProgramOfTheUserIsFoundOnItsClassPath(@TempDir Path folder) throws Exception {
        compileProgram(folder);
        Process started = launch(Map.of(), "--processes", "2", "--class-path", folder.toString(), "Elsewhere", "hi");
        var said = new String(started.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, started.waitFor(), said);
        assertTrue(said.contains("[0] Reply[rank=0, text=hi]\n[1] Reply[rank=1, text=hi]\n"), said);
        try (var port = ReservedPort.any()) {
            Process joined = launch(
                    Map.of(
                            "RANK", "0",
                            "WORLD_SIZE", "1",
                            "LOCAL_RANK", "0",
                            "MASTER_ADDR", "127.0.0.1",
                            "MASTER_PORT", "" + port.number()),
                    "--class-path",
                    folder.toString(),
                    "Elsewhere",
                    "hi");
            said = new String(joined.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertEquals(0, joined.waitFor(), said);
            assertTrue(said.contains("[0] Reply[rank=0, text=hi]\n"), said);
        }
    }

    @Test
    void ranksFindClassesAddedToTheClassPathLaterAsInANotebookKernel() throws Exception {
        String given = System.getProperty("java.class.path");
        String library = Path.of(Launcher.class
                        .getProtectionDomain()
                        .getCodeSource()
                        .getLocation()
                        .toURI())
                .toString();
        System.setProperty(
                "java.class.path",
                Arrays.stream(given.split(File.pathSeparator))
                        .filter(entry ->
                                !Path.of(entry).toAbsolutePath().toString().equals(library))
                        .collect(Collectors.joining(File.pathSeparator)));
        try {
            assertNotEquals(given, System.getProperty("java.class.path"));
            assertEquals(List.of("0 of 1 here []"), Launcher.of(1).run(Greeting.class, new String[0]));
        } finally {
            System.setProperty("java.class.path", given);
        }
    }

    @Test
    void invalidProgramsSettingsAndValuesAreRejected() {
        assertEquals(
                "program cs336.distributed.launch.LauncherTest$Hidden must be a public class with a public no-argument constructor",
                assertThrows(
                                IllegalArgumentException.class,
                                () -> Launcher.of(1).run(Hidden.class, ""))
                        .getMessage());
        assertThrows(IllegalArgumentException.class, () -> Launcher.of(1).timeout(Duration.ZERO));
        assertThrows(IllegalArgumentException.class, () -> Launcher.of(1).loadingTimeout(Duration.ZERO));
        assertThrows(IllegalArgumentException.class, () -> Launcher.of(1).threads(0));
        assertThrows(IllegalArgumentException.class, () -> Launcher.of(1).threads(100_000));
        var argument = new String[] {"soon"};
        var invalid = assertThrows(RankFailure.class, () -> Launcher.of(1).run(Hello.class, argument));
        assertEquals("rank 0 of 1: argument must be a number of seconds or absent, not 'soon'", invalid.getMessage());
        var e = assertThrows(RankFailure.class, () -> Launcher.of(1).run(Unsendable.class, ""));
        assertTrue(
                e.getMessage()
                        .startsWith("rank 0 of 1: a value of java.util.ArrayList cannot be sent to another process: "
                                + "it contains a java.lang.Object, which is not Serializable"),
                e.getMessage());
    }
}
