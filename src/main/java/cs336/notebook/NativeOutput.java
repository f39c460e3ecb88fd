package cs336.notebook;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The output that native code and child processes print to this process's standard output, such as that of
 * {@code torch.print}. It goes into a pipe, from which a thread copies it to {@code System.out}, the output of the
 * cell, without Gloo's messages about connections.
 */
final class NativeOutput {
    private static final int STDOUT = 1;
    private static final int LINE_BUFFERED = 1; // _IOLBF
    private static final int BUFFER = 1 << 16;
    private static final ConnectionMessages CONNECTIONS = new ConnectionMessages();

    /** The byte that {@link #flush} sends through the pipe; texts do not contain it. */
    private static final byte[] MARK = {0};

    private static final long MARK_MS = 1000;

    private static volatile boolean captured;
    private static final Semaphore marks = new Semaphore(0);

    /**
     * Gloo's messages about connections, which each rank prints when a process group is created. Gloo prints a message
     * in pieces, so the pieces of ranks that are threads of one process may be mixed.
     */
    private static final class ConnectionMessages {
        private static final String BEGIN = "[Gloo] Rank ";

        private static final Pattern PIECES = Pattern.compile("(" + Pattern.quote(BEGIN)
                + "|\\d+| is connected to | peer ranks\\. ?|Expected number of connected peer ranks is : |\n)*");

        private int incomplete; // messages whose end was not printed yet

        /** Returns whether a line, with its end, consists of such messages. Lines must be given in order. */
        boolean isPart(String line) {
            int begun = line.split(Pattern.quote(BEGIN), -1).length - 1;
            if (begun + incomplete == 0 || !PIECES.matcher(line).matches()) {
                return false;
            }
            incomplete += begun - 1;
            return true;
        }

        /** Returns whether a line that has no end yet may become such a line. */
        boolean mayBegin(String line) {
            Matcher pieces = PIECES.matcher(line);
            return (incomplete > 0 || line.startsWith(BEGIN)) && (pieces.matches() || pieces.hitEnd());
        }
    }

    private NativeOutput() {}

    /**
     * Starts to capture the output. {@code System.out} must have been replaced before, because the captured output is
     * written to it.
     *
     * @throws IOException if no pipe can be created
     */
    static void capture() throws IOException {
        var ends = new int[2];
        if (call("pipe", ends) != 0) {
            throw new IOException("the standard output cannot be captured: pipe failed");
        }
        InputStream printed = new FileInputStream(
                Path.of("/proc/self/fd", String.valueOf(ends[0])).toFile());
        call("close", ends[0]);
        call("dup2", ends[1], STDOUT);
        call("close", ends[1]);
        // Lines that a long cell prints are shown at once.
        Pointer stdout =
                NativeLibrary.getProcess().getGlobalVariableAddress("stdout").getPointer(0);
        call("setvbuf", stdout, Pointer.NULL, LINE_BUFFERED, 0L);
        captured = true;
        var copier = new Thread(() -> copy(printed), "native output");
        copier.setDaemon(true);
        copier.start();
    }

    private static void copy(InputStream printed) {
        var buffer = new byte[BUFFER];
        var line = new ByteArrayOutputStream();
        try (printed) {
            for (int n = printed.read(buffer); n >= 0; n = printed.read(buffer)) {
                var shown = new ByteArrayOutputStream();
                int marked = 0;
                for (int i = 0; i < n; i++) {
                    if (buffer[i] == MARK[0]) {
                        marked++;
                        continue;
                    }
                    line.write(buffer[i]);
                    if (buffer[i] == '\n') {
                        if (!CONNECTIONS.isPart(text(line))) {
                            shown.writeBytes(line.toByteArray());
                        }
                        line.reset();
                    }
                }
                if (!CONNECTIONS.mayBegin(text(line))) {
                    shown.writeBytes(line.toByteArray());
                    line.reset();
                }
                print(shown);
                marks.release(marked);
            }
        } catch (IOException e) {
            // The process ends.
        }
    }

    private static void print(ByteArrayOutputStream shown) {
        try {
            PrintStream out = System.out;
            out.write(shown.toByteArray(), 0, shown.size());
            out.flush();
        } catch (RuntimeException e) {
            // A cell has replaced the stream, perhaps by null. Native code must not wait for a full pipe.
        }
    }

    private static String text(ByteArrayOutputStream line) {
        return line.toString(StandardCharsets.UTF_8);
    }

    /** Waits until all output that native code has printed so far is in {@code System.out}. */
    static synchronized void flush() {
        if (!captured) {
            return;
        }
        call("fflush", Pointer.NULL);
        marks.drainPermits();
        call("write", STDOUT, MARK, (long) MARK.length);
        boolean interrupted = Thread.interrupted();
        try {
            marks.tryAcquire(MARK_MS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            interrupted = true;
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static int call(String function, Object... arguments) {
        Function called = NativeLibrary.getProcess().getFunction(function);
        return called.invokeInt(arguments);
    }
}
