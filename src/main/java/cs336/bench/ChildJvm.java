package cs336.bench;

import cs336.torch.ProcessEnd;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
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
 * A main class in a JVM of its own, on the class path and with the flags of this one. It is told lines and answers in
 * lines.
 *
 * <p>An answer starts with {@link #MARK}; whatever else the child or a native library prints is only kept for error
 * messages. Neither outlives the other: when this JVM ends, in whatever way, the child's input ends, and {@link Child}
 * takes that as the sign to stop.
 */
public final class ChildJvm implements AutoCloseable {
    /** What tells an answer from other output. */
    private static final String MARK = "\u0001cs336 ";

    /**
     * The host's part in a step is to call native code, which the quick compiler does as well as the thorough one, and
     * after five steps of warm-up the thorough one would still be at work. Nor shall methods be interpreted 200 times
     * before: that is as often as a short kernel's benchmark runs them in all, and takes two to three times as long.
     */
    private static final List<String> COMPILED_SOON =
            List.of("-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=0.1");

    private static final int KEPT_LINES = 40;

    private final Process process;
    private final Thread killer;
    private final Deque<String> said = new ArrayDeque<>();
    private final BlockingQueue<Optional<String>> answers = new LinkedBlockingQueue<>(); // the last one is empty
    private final Thread out;
    private final Thread err;
    private final Consumer<String> listener;
    private boolean timedOut;
    private volatile boolean closed;

    private ChildJvm(Process process, Consumer<String> listener) {
        this.process = process;
        this.listener = listener;
        killer = new Thread(process::destroyForcibly);
        addShutdownHook(killer);
        out = reading(
                process.getInputStream(),
                line -> {
                    if (line.startsWith(MARK)) answers.add(Optional.of(line.substring(MARK.length())));
                    else keep(line);
                },
                () -> answers.add(Optional.empty()));
        err = reading(process.getErrorStream(), this::keep, () -> {});
    }

    /**
     * How a child ended.
     *
     * @param exitCode as the shell counts it: 128 + the signal's number where a signal ended it
     * @param timedOut whether it was stopped because an answer did not come in time
     * @param said the last lines it printed beside its answers
     */
    public record Ending(int exitCode, boolean timedOut, List<String> said) {}

    /** Starts the class. */
    static ChildJvm start(Class<?> main) throws IOException {
        return start(main, Map.of(), line -> {});
    }

    /**
     * Starts the class.
     *
     * @param environment variables set above those of this process
     * @param output takes each line that the child prints beside its answers, as it comes, on threads of its own
     */
    public static ChildJvm start(Class<?> main, Map<String, String> environment, Consumer<String> output)
            throws IOException {
        return new ChildJvm(process(main, environment), output);
    }

    /** The child's number among the system's processes. */
    public long pid() {
        return process.pid();
    }

    /** Hands the child a line. */
    public void tell(String line) {
        try {
            OutputStream stdin = process.getOutputStream();
            stdin.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            stdin.flush();
        } catch (IOException e) {
            keep("it ended before it had read its input");
        }
    }

    /**
     * Waits for the next answer.
     *
     * @param limit after which the child is killed; null for none
     * @return null where none comes any more: the child has ended, or was killed just now
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

    /** Ends the child's input, with which it ends if it has not yet, and waits for that. */
    public Ending end() throws InterruptedException {
        try {
            process.getOutputStream().close();
        } catch (IOException e) {
            // It has closed its end already.
        }
        int exitCode = process.waitFor();
        out.join();
        err.join();
        synchronized (said) {
            return new Ending(exitCode, timedOut, List.copyOf(said));
        }
    }

    /** Kills the child if it still runs. */
    @Override
    public void close() {
        closed = true;
        try {
            process.destroyForcibly().waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // killed it is
        }
        removeShutdownHook(killer);
    }

    private void keep(String line) {
        listener.accept(line);
        synchronized (said) {
            said.add(line);
            if (said.size() > KEPT_LINES) said.remove();
        }
    }

    private static Process process(Class<?> main, Map<String, String> environment) throws IOException {
        var command = new ArrayList<String>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(COMPILED_SOON);
        command.addAll(flags());
        command.add("-XX:ErrorFile=" + System.getProperty("java.io.tmpdir") + "/cs336-crash-%p.log");
        command.add("-XX:-CreateCoredumpOnCrash");
        command.add(main.getName());
        var builder = new ProcessBuilder(command);
        builder.environment().putAll(environment);
        builder.environment().put("CLASSPATH", classPath());
        return builder.start();
    }

    /** The flags of this JVM, without debuggers and agents: a fresh one is to be measured, not watched. */
    private static List<String> flags() {
        return ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(flag -> !flag.matches("-agent(lib|path):.*|-javaagent:.*|-Xdebug|-Xrunjdwp.*|-XX:ErrorFile=.*"))
                .toList();
    }

    /** This JVM's, and where this class came from: a notebook's kernel may have been given that later. */
    private static String classPath() {
        var entries = new ArrayList<Path>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator))
            entries.add(Path.of(entry));
        entries.add(origin());
        return entries.stream()
                .map(entry -> entry.toAbsolutePath().toString())
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
            throw new IllegalStateException("this class came from nowhere", e);
        }
    }

    private Thread reading(InputStream from, Consumer<String> lines, Runnable atEnd) {
        var thread = new Thread(() -> {
            try (var reader = new BufferedReader(new InputStreamReader(from, StandardCharsets.UTF_8))) {
                for (String line; (line = reader.readLine()) != null; ) lines.accept(line);
            } catch (IOException e) {
                if (!closed) lines.accept("its output broke off: " + e.getMessage());
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
            // This JVM is ending; the hook has nothing left to kill.
        }
    }

    /** The child's side: lines in, answers out, and an end when the parent ends or has no more to say. */
    public static final class Child {
        private final PrintStream answers = System.out;
        private final BlockingQueue<String> input = new LinkedBlockingQueue<>();

        /** Takes over standard input and output; call it first. */
        public Child() {
            System.setOut(System.err);
            var watch = new Thread(() -> {
                try (var stdin = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
                    for (String line; (line = stdin.readLine()) != null; ) input.add(line);
                } catch (IOException e) {
                    // A broken pipe says the same as a closed one.
                }
                try {
                    ProcessEnd.now(1); // also in the middle of a collective, for which halt() waits
                } finally {
                    Runtime.getRuntime().halt(1);
                }
            });
            watch.setDaemon(true);
            watch.start();
        }

        /** The next line from the parent; waits for it. */
        public String next() throws InterruptedException {
            return input.take();
        }

        /** Sends one line, on a line of its own whatever native code has printed before. */
        public void answer(String line) {
            byte[] bytes = ("\n" + MARK + line + "\n").getBytes(StandardCharsets.UTF_8);
            answers.write(bytes, 0, bytes.length);
            answers.flush();
        }

        /** Ends at once: destructors of native libraries have nothing to do that the end of the process does not. */
        public void end(int exitCode) {
            System.err.flush();
            Runtime.getRuntime().halt(exitCode);
        }
    }
}
