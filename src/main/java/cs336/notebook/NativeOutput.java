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

/**
 * The output that native code and child processes print to this process's standard output, such as that of
 * {@code torch.print}. It goes into a pipe, from which a thread copies it to {@code System.out}, the output of the
 * cell, without Gloo's lines about connections.
 */
final class NativeOutput {
    private static final int STDOUT = 1;
    private static final int BUFFER = 1 << 16;
    private static final String GLOO = "[Gloo] Rank ";

    private static volatile boolean captured;

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
                for (int i = 0; i < n; i++) {
                    line.write(buffer[i]);
                    if (buffer[i] == '\n') {
                        show(line, shown);
                    }
                }
                if (!isAboutConnections(line)) {
                    show(line, shown);
                }
                PrintStream out = System.out;
                out.write(shown.toByteArray(), 0, shown.size());
                out.flush();
            }
        } catch (IOException e) {
            // The process ends.
        }
    }

    private static void show(ByteArrayOutputStream line, ByteArrayOutputStream shown) {
        if (!isAboutConnections(line)) {
            shown.writeBytes(line.toByteArray());
        }
        line.reset();
    }

    /** Returns whether this is a line of Gloo, which prints one per rank whenever a process group is created. */
    private static boolean isAboutConnections(ByteArrayOutputStream line) {
        return line.size() >= GLOO.length()
                && line.toString(StandardCharsets.UTF_8).startsWith(GLOO);
    }

    /** Passes on what native code has printed and the C library still buffers. */
    static void flush() {
        if (captured) {
            call("fflush", Pointer.NULL);
        }
    }

    private static int call(String function, Object... arguments) {
        Function called = NativeLibrary.getProcess().getFunction(function);
        return called.invokeInt(arguments);
    }
}
