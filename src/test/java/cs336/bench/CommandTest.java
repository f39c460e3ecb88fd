package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.units.PretendedLoad;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/**
 * Base class for tests of commands that measure, on a busy host: a folder for measurements, and the output of the
 * command.
 */
public abstract class CommandTest {
    @TempDir
    protected Path folder;

    protected final StringWriter out = new StringWriter();
    protected final StringWriter err = new StringWriter(); // the message for invalid arguments
    protected final ByteArrayOutputStream progress = new ByteArrayOutputStream();

    protected PretendedLoad host;

    private final PrintStream console = System.err;

    @BeforeEach
    void redirectProgress() {
        System.setErr(new PrintStream(progress, true, StandardCharsets.UTF_8));
        host = PretendedLoad.busy();
    }

    @AfterEach
    void restoreConsole() {
        System.setErr(console);
        host.close();
    }

    /**
     * Runs a command that stores its measurements in {@link #folder}.
     *
     * @param arguments arguments separated by spaces, without quotes
     * @param more further arguments, which may contain spaces
     * @return the exit code
     */
    protected final int run(Callable<Integer> command, String arguments, String... more) {
        var all = new ArrayList<>(List.of("--output", folder.toString()));
        all.addAll(List.of(more));
        return runWithoutOutput(command, arguments, all.toArray(String[]::new));
    }

    /** Runs a command that stores nothing; the parameters are those of {@link #run}. */
    protected final int runWithoutOutput(Callable<Integer> command, String arguments, String... more) {
        host.expectWarning();
        var all = new ArrayList<>(List.of(arguments.strip().split(" +")));
        all.addAll(List.of(more));
        return new CommandLine(command)
                .setParameterExceptionHandler((e, args) -> {
                    err.write(e.getMessage());
                    return 2;
                })
                .setOut(new PrintWriter(out))
                .execute(all.toArray(String[]::new));
    }

    /**
     * Checks that a command line was rejected with a message and nothing else.
     *
     * @param exitCode of {@link #run}
     */
    protected final void assertRejected(String message, int exitCode) {
        assertEquals(2, exitCode);
        assertEquals(message, err.toString());
        assertEquals("", out.toString());
    }
}
