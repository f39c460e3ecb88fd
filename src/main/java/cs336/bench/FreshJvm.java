package cs336.bench;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * Runs a main class in a JVM of its own, on the class path and with the flags of this one, and reads what it answers.
 *
 * <p>The child gets one line of input. It answers in lines that start with {@link #MARK}; whatever else it or a native
 * library prints is only kept for error messages. Neither outlives the other: when this JVM ends, in whatever way, the
 * child's input ends, and {@link Child} takes that as the sign to stop.
 */
final class FreshJvm {
    /** What tells an answer from other output. */
    private static final String MARK = "\u0001cs336 ";

    /**
     * The host's part in a step is to call native code, which the quick compiler does as well as the thorough one, and after
     * five steps of warm-up the thorough one would still be at work.
     */
    private static final String COMPILED_SOON = "-XX:TieredStopAtLevel=1";

    private static final int KEPT_LINES = 40;

    private FreshJvm() {}

    /**
     * How a child ended.
     *
     * @param exitCode as the shell counts it: 128 + the signal's number where a signal ended it
     * @param timedOut whether it was stopped for passing its time limit
     * @param said the last lines it printed beside its answers
     */
    record Ending(int exitCode, boolean timedOut, List<String> said) {}

    /**
     * Starts the class, hands it the line, and waits for its end.
     *
     * @param limit after which it is killed; null for none
     * @param answers takes each answer when it comes, on another thread
     */
    static Ending run(Class<?> main, String input, Duration limit, Consumer<String> answers)
            throws IOException, InterruptedException {
        Process process = start(main);
        Thread killer = new Thread(process::destroyForcibly);
        addShutdownHook(killer);
        Deque<String> said = new ArrayDeque<>();
        Consumer<String> keep = line -> {
            synchronized (said) {
                said.add(line);
                if (said.size() > KEPT_LINES) said.remove();
            }
        };
        try (OutputStream stdin = process.getOutputStream()) {
            Thread out = reading(process.getInputStream(), line -> {
                if (line.startsWith(MARK)) answers.accept(line.substring(MARK.length()));
                else keep.accept(line);
            });
            Thread err = reading(process.getErrorStream(), keep);
            try {
                stdin.write((input + "\n").getBytes(StandardCharsets.UTF_8));
                stdin.flush();
            } catch (IOException e) {
                keep.accept("it ended before it had read its input");
            }
            boolean ended = limit == null || process.waitFor(limit.toMillis(), TimeUnit.MILLISECONDS);
            if (!ended) process.destroyForcibly();
            int exitCode = process.waitFor();
            out.join();
            err.join();
            synchronized (said) {
                return new Ending(exitCode, !ended, List.copyOf(said));
            }
        } finally {
            process.destroyForcibly().waitFor();
            removeShutdownHook(killer);
        }
    }

    private static Process start(Class<?> main) throws IOException {
        var command = new ArrayList<String>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add(COMPILED_SOON);
        command.addAll(flags());
        command.add("-XX:ErrorFile=" + System.getProperty("java.io.tmpdir") + "/cs336-crash-%p.log");
        command.add("-XX:-CreateCoredumpOnCrash");
        command.add(main.getName());
        var builder = new ProcessBuilder(command);
        builder.environment().put("CLASSPATH", classPath());
        return builder.start();
    }

    /** The flags of this JVM, without debuggers and agents: a fresh one is to be measured, not watched. */
    private static List<String> flags() {
        return ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(flag -> !flag.matches("-agent(lib|path):.*|-javaagent:.*|-Xdebug|-Xrunjdwp.*|-XX:ErrorFile=.*"))
                .toList();
    }

    private static String classPath() {
        String separator = File.pathSeparator;
        return List.of(System.getProperty("java.class.path").split(separator)).stream()
                .map(entry -> Path.of(entry).toAbsolutePath().toString())
                .collect(Collectors.joining(separator));
    }

    private static Thread reading(InputStream from, Consumer<String> lines) {
        var thread = new Thread(() -> {
            try (var reader = new BufferedReader(new InputStreamReader(from, StandardCharsets.UTF_8))) {
                for (String line; (line = reader.readLine()) != null; ) lines.accept(line);
            } catch (IOException e) {
                lines.accept("its output broke off: " + e.getMessage());
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

    /** The child's side: one line in, answers out, and an end when the parent ends. */
    static final class Child {
        private final PrintStream answers = System.out;
        private final String input;

        /** Takes over standard input and output; call it first. */
        Child() throws IOException {
            System.setOut(System.err);
            var stdin = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            input = stdin.readLine();
            var watch = new Thread(() -> {
                try {
                    while (stdin.read() >= 0) {}
                } catch (IOException e) {
                    // A broken pipe says the same as a closed one.
                }
                Runtime.getRuntime().halt(1);
            });
            watch.setDaemon(true);
            watch.start();
        }

        String input() {
            return input;
        }

        /** Sends one line, on a line of its own whatever native code has printed before. */
        void answer(String line) {
            byte[] bytes = ("\n" + MARK + line + "\n").getBytes(StandardCharsets.UTF_8);
            answers.write(bytes, 0, bytes.length);
            answers.flush();
        }

        /** Ends at once: destructors of native libraries have nothing to do that the end of the process does not. */
        void end(int exitCode) {
            System.err.flush();
            Runtime.getRuntime().halt(exitCode);
        }
    }
}
