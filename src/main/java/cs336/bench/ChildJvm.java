package cs336.bench;

import com.sun.jna.NativeLibrary;
import cs336.torch.ProcessEnd;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * A child process that runs a main class in a new JVM, with the class path and the flags of this JVM. Parent and child
 * exchange single lines over the child's standard input and output.
 *
 * <p>Answers are lines that start with {@link #MARK}. {@link Child} keeps the pipe of the standard output to itself, so
 * the program and its native libraries can neither forge nor damage an answer by printing. All their output is kept for
 * error messages. A child does not outlive its parent: whenever the parent exits, the standard input of the child
 * closes, and {@link Child} then ends the child. A stopped child is killed by Linux.
 */
public final class ChildJvm implements AutoCloseable {
    /** The prefix of answers. */
    private static final String MARK = "\u0001cs336 ";

    /**
     * Flags for short runs: compile with C1 only, after a tenth of the usual number of calls. The Java code of a step
     * mostly calls native code; there C1's code is as fast as C2's, and C2 would still be compiling after five warm-up
     * steps. By default the JVM interprets 200 calls of a method before C1 compiles it. The benchmark of a short kernel
     * has fewer calls, and interpreted calls take two to three times as long.
     */
    private static final List<String> COMPILE_EARLY =
            List.of("-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=0.1");

    private static final int MAX_KEPT_LINES = 40;
    private static final int MAX_REPORT_LINES = 8;
    private static final int MAX_LINE_BYTES = 1 << 14;
    private static final int MAX_ANSWER_BYTES = 1 << 26;

    /** Time in which the output of a child that has ended is read. */
    private static final long LAST_OUTPUT_MS = 5000;

    private final Process process;
    private final Thread killer;
    private final Deque<String> keptLines = new ArrayDeque<>();
    private final BlockingQueue<Optional<String>> answers =
            new LinkedBlockingQueue<>(); // an empty Optional ends the output
    private final Thread out;
    private final Thread err;
    private final Consumer<String> listener;
    private final long startMs = System.currentTimeMillis();
    private boolean timedOut;
    private volatile boolean closed;

    private ChildJvm(Process process, Consumer<String> listener) {
        this.process = process;
        this.listener = listener;
        killer = new Thread(process::destroyForcibly);
        addShutdownHook(killer);
        out = readerThread(
                process.getInputStream(),
                line -> {
                    if (line.startsWith(MARK)) {
                        answers.add(Optional.of(line.substring(MARK.length())));
                    } else {
                        keep(line);
                    }
                },
                () -> answers.add(Optional.empty()));
        err = readerThread(process.getErrorStream(), this::keep, () -> {});
    }

    /**
     * The exit of a child process and its last output.
     *
     * @param exitCode the exit code as in a shell: 128 + the signal's number if a signal ended the process
     * @param timedOut whether the process was killed because an answer did not arrive in time
     * @param lastLines the last lines of its output that were not answers
     */
    public record Ending(int exitCode, boolean timedOut, List<String> lastLines) {}

    /** Starts a main class with the environment of this process. */
    static ChildJvm start(Class<?> main) throws IOException {
        return start(main, Map.of(), line -> {});
    }

    /**
     * Starts a main class. The process also ends when the thread that calls this method ends.
     *
     * @param environment variables that are added to those of this process; a CLASSPATH is searched after the class
     *     path of this JVM
     * @param output receives each line of output that is not an answer; called from other threads
     */
    public static ChildJvm start(Class<?> main, Map<String, String> environment, Consumer<String> output)
            throws IOException {
        return new ChildJvm(process(main, environment), output);
    }

    /** Sends a line to the child. If the child has ended, {@link #answer} reports it. */
    public void tell(String line) {
        try {
            OutputStream stdin = process.getOutputStream();
            stdin.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            stdin.flush();
        } catch (IOException e) {
            keep("the process ended before it read its input");
        }
    }

    /**
     * Waits for the next answer.
     *
     * @param limit the time after which the child is killed; null for no limit
     * @return the answer, or null if the child has ended or was killed by the time limit
     */
    public String answer(Duration limit) throws InterruptedException {
        Optional<String> next = limit == null ? answers.take() : answers.poll(limit.toNanos(), TimeUnit.NANOSECONDS);
        if (next == null) {
            timedOut = true;
            process.destroyForcibly();
            return null;
        }
        return next.orElse(null);
    }

    /** Closes the child's standard input, which makes the child exit, and waits until it has exited. */
    public Ending end() throws InterruptedException {
        try {
            process.getOutputStream().close();
        } catch (IOException e) {
            // The child has closed its end.
        }
        int exitCode = process.waitFor();
        // A process that the child started may keep the pipes open.
        out.join(LAST_OUTPUT_MS);
        err.join(LAST_OUTPUT_MS);
        if (exitCode != 0) { // 1 after a crash, because no core is dumped
            keepReportOfCrash();
        }
        synchronized (keptLines) {
            return new Ending(exitCode, timedOut, List.copyOf(keptLines));
        }
    }

    /** Adds the first lines of the JVM's crash report to the kept lines, unless the child has printed them. */
    private void keepReportOfCrash() {
        synchronized (keptLines) {
            if (keptLines.stream().anyMatch(line -> line.startsWith("# "))) {
                return;
            }
        }
        Path log = Path.of(crashLog(String.valueOf(process.pid())));
        try {
            // An older file is of an earlier process with the same id.
            if (Files.getLastModifiedTime(log).toMillis() >= startMs) {
                List<String> report = Files.readAllLines(log, StandardCharsets.ISO_8859_1);
                report.stream().limit(MAX_REPORT_LINES).forEach(this::keep);
                keep("# " + log);
            }
        } catch (IOException e) {
            // Without a report, the child did not crash.
        }
    }

    private static String crashLog(String pid) {
        return System.getProperty("java.io.tmpdir") + "/cs336-crash-" + pid + ".log";
    }

    /** Kills the child if it is still running. */
    @Override
    public void close() {
        closed = true;
        try {
            process.destroyForcibly().waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // the kill signal has been sent
        }
        removeShutdownHook(killer);
    }

    private void keep(String line) {
        listener.accept(line);
        synchronized (keptLines) {
            keptLines.add(line);
            if (keptLines.size() > MAX_KEPT_LINES) {
                keptLines.remove();
            }
        }
    }

    private static Process process(Class<?> main, Map<String, String> environment) throws IOException {
        var command = new ArrayList<String>();
        command.add(javaExecutable());
        command.addAll(COMPILE_EARLY);
        command.addAll(flags());
        command.add("-XX:ErrorFile=" + crashLog("%p"));
        command.add("-XX:-CreateCoredumpOnCrash");
        command.add(main.getName());
        var builder = new ProcessBuilder(command);
        builder.environment().putAll(environment);
        String more = environment.getOrDefault("CLASSPATH", "");
        builder.environment().put("CLASSPATH", classPath() + (more.isEmpty() ? "" : File.pathSeparator + more));
        return builder.start();
    }

    /** Returns the path of the program {@code java} that runs this JVM. */
    public static String javaExecutable() {
        return Path.of(System.getProperty("java.home"), "bin", "java").toString();
    }

    /** Returns the flags of this JVM except those for debuggers and agents, which would affect measurements. */
    static List<String> flags() {
        return ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(flag -> !flag.matches("-agent(lib|path):.*|-javaagent:.*|-Xdebug|-Xrunjdwp.*|-XX:ErrorFile=.*"))
                .toList();
    }

    /**
     * Returns the class path of this JVM with the location of this class, which a Jupyter kernel adds only after its
     * start. JAR files precede folders, because a class data archive holds only classes of JAR files at the start of
     * the class path.
     */
    static String classPath() {
        var entries = new ArrayList<Path>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            entries.add(Path.of(entry));
        }
        entries.add(origin());
        return entries.stream()
                .map(Path::toAbsolutePath)
                .sorted(Comparator.comparing(Files::isDirectory)) // keeps the order of JAR files and that of folders
                .map(Path::toString)
                .distinct()
                .collect(Collectors.joining(File.pathSeparator));
    }

    private static Path origin() {
        try {
            return Path.of(ChildJvm.class
                    .getProtectionDomain()
                    .getCodeSource()
                    .getLocation()
                    .toURI());
        } catch (URISyntaxException e) {
            throw new IllegalStateException("the location of ChildJvm.class is unknown", e);
        }
    }

    private Thread readerThread(InputStream from, Consumer<String> lines, Runnable atEnd) {
        var thread = new Thread(() -> {
            try (from) {
                new BoundedLines(lines, MAX_LINE_BYTES, MARK, MAX_ANSWER_BYTES).read(from);
            } catch (IOException e) {
                if (!closed) {
                    lines.accept("its output could not be read: " + e.getMessage());
                }
            } finally {
                atEnd.run();
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static void addShutdownHook(Thread hook) {
        try {
            Runtime.getRuntime().addShutdownHook(hook);
        } catch (IllegalStateException e) {
            hook.run();
        }
    }

    private static void removeShutdownHook(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException e) {
            // This JVM is shutting down, and the child has ended.
        }
    }

    /** The child's end of the connection. It ends the child process when its standard input ends. */
    public static final class Child {
        private static final int STDOUT = 1;
        private static final int STDERR = 2;

        private final OutputStream answers = takeStandardOutput();
        private final BlockingQueue<String> input = new LinkedBlockingQueue<>();

        /** Takes over standard input and output, so it must be created before anything is printed. */
        public Child() {
            ProcessEnd.withParent();
            System.setOut(System.err);
            var reader = new Thread(() -> {
                try (var stdin = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
                    for (String line; (line = stdin.readLine()) != null; ) {
                        input.add(line);
                    }
                } catch (IOException e) {
                    // A broken pipe means the same as a closed one.
                }
                try {
                    ProcessEnd.now(1); // works during a collective, where halt() would block
                } finally {
                    Runtime.getRuntime().halt(1);
                }
            });
            reader.setDaemon(true);
            reader.start();
        }

        /**
         * Opens the pipe of the standard output again, and lets everything that is printed go to the standard error.
         */
        private static OutputStream takeStandardOutput() {
            try {
                var pipe = new FileOutputStream("/proc/self/fd/" + STDOUT);
                NativeLibrary.getProcess().getFunction("dup2").invokeInt(new Object[] {STDERR, STDOUT});
                return pipe;
            } catch (FileNotFoundException e) {
                return System.out; // it is not a pipe, or there is no /proc
            }
        }

        /** Waits for the next line from the parent and returns it. */
        public String next() throws InterruptedException {
            return input.take();
        }

        /**
         * Sends an answer. It starts on a new line even if the JVM has printed an unfinished one.
         *
         * @throws IllegalArgumentException if it is longer than 64 MiB
         */
        public synchronized void answer(String line) {
            byte[] bytes = ("\n" + MARK + line + "\n").getBytes(StandardCharsets.UTF_8);
            if (bytes.length > MAX_ANSWER_BYTES) {
                throw new IllegalArgumentException("a message to the parent process must have at most "
                        + MAX_ANSWER_BYTES + " bytes, not " + bytes.length);
            }
            try {
                answers.write(bytes);
                answers.flush();
            } catch (IOException e) {
                // The parent has ended, and the standard input of this process ends it.
            }
        }

        /** Ends this process immediately, without running shutdown hooks and destructors of native libraries. */
        public void end(int exitCode) {
            System.err.flush();
            Runtime.getRuntime().halt(exitCode);
        }
    }
}
