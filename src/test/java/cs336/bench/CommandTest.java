package cs336.bench;

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

/** What the tests of commands that measure have in common: a folder for measurements, and all that a command prints. */
public abstract class CommandTest {
    @TempDir
    protected Path folder;

    protected final StringWriter out = new StringWriter();
    protected final StringWriter err = new StringWriter(); // the message of a wrong use
    protected final ByteArrayOutputStream progress = new ByteArrayOutputStream();

    private final PrintStream console = System.err;

    @BeforeEach
    void keepProgressToOurselves() {
        System.setErr(new PrintStream(progress, true, StandardCharsets.UTF_8));
    }

    @AfterEach
    void giveTheConsoleBack() {
        System.setErr(console);
    }

    /**
     * Runs a command whose measurements go to {@link #folder}.
     *
     * @param arguments as in a shell, without quotes
     * @param more further arguments, each as it is
     * @return the exit code
     */
    protected final int run(Callable<Integer> command, String arguments, String... more) {
        var all = new ArrayList<>(List.of(arguments.strip().split(" +")));
        all.addAll(List.of("--output", folder.toString()));
        all.addAll(List.of(more));
        return new CommandLine(command)
                .setParameterExceptionHandler((e, args) -> {
                    err.write(e.getMessage());
                    return 2;
                })
                .setOut(new PrintWriter(out))
                .execute(all.toArray(String[]::new));
    }
}
