package cs336.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import cs336.bench.ChildJvm;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class NativeOutputTest {
    /** A process whose native code prints, because its standard output is captured until it ends. */
    public static final class NativePrints {
        private NativePrints() {}

        public static void main(String[] args) throws Exception {
            var shown = new ByteArrayOutputStream();
            var complete = new CountDownLatch(1);
            System.setOut(new PrintStream(shown, true) {
                @Override
                public void write(byte[] bytes, int offset, int length) {
                    super.write(bytes, offset, length);
                    if (shown.toString(StandardCharsets.UTF_8).contains("child")) {
                        complete.countDown();
                    }
                }
            });
            NativeOutput.capture();
            Function puts = NativeLibrary.getProcess().getFunction("puts");
            puts.invokeInt(new Object[] {"[Gloo] Rank 0 is connected to 1 peer ranks."});
            // The pieces of two messages, mixed.
            puts.invokeInt(new Object[] {
                "[Gloo] Rank [Gloo] Rank 10 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1"
            });
            puts.invokeInt(
                    new Object[] {" is connected to 1 peer ranks. Expected number of connected peer ranks is : 1"});
            puts.invokeInt(new Object[] {"1"});
            puts.invokeInt(new Object[] {"native"});
            NativeOutput.flush();
            // What native code printed before is shown when flush returns.
            System.out.println("java");
            new ProcessBuilder("echo", "child").inheritIO().start().waitFor();
            boolean ended = complete.await(120, TimeUnit.SECONDS);
            String text = shown.toString(StandardCharsets.UTF_8);
            System.err.print(ended + ": " + text.replace("\n", ","));
            System.exit(0);
        }
    }

    @Test
    void printsOfNativeCodeAndChildProcessesReachSystemOutWithoutMessagesOfGloo() throws Exception {
        Process process = new ProcessBuilder(
                        ChildJvm.javaExecutable(),
                        "-cp",
                        System.getProperty("java.class.path"),
                        NativePrints.class.getName())
                .start();
        String errors = new String(process.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor());
        // Before it, the JVM names variables with options and, from Java 24 on, libraries that load native code.
        String last = errors.lines().reduce((earlier, later) -> later).orElse("");
        assertEquals("true: 1,native,java,child,", last, errors);
    }
}
