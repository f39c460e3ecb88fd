package cs336.notebook;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.file.Path;

/**
 * The output that native code and child processes print to this process's standard output, such as that of
 * {@code torch.print}. It goes into a pipe, from which a thread copies it to {@code System.out}, the output of the
 * cell.
 */
final class NativeOutput {
    private static final int STDOUT = 1;
    private static final int BUFFER = 1 << 16;

    private static volatile boolean captured;

    private NativeOutput() {}

    /**
     * Captures the output from now on. {@code System.out} must not be the original stream of this process any more.
     *
     * @throws IOException if there is no pipe to be had
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
        try (printed) {
            for (int n = printed.read(buffer); n >= 0; n = printed.read(buffer)) {
                PrintStream out = System.out;
                out.write(buffer, 0, n);
                out.flush();
            }
        } catch (IOException e) {
            // The process ends.
        }
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
