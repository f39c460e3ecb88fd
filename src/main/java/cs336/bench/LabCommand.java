package cs336.bench;

import java.io.IOException;
import java.io.PrintWriter;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * A command of the laboratory. It checks all its options before it starts to work, through {@link #checked}, so that
 * wrong use ends in one line and exit code 2.
 */
@Command(mixinStandardHelpOptions = true, sortOptions = false, showDefaultValues = true)
public abstract class LabCommand implements Callable<Integer> {
    @Spec
    protected CommandSpec spec;

    /** Returns the command's standard output. */
    protected final PrintWriter out() {
        return spec.commandLine().getOut();
    }

    /**
     * Returns the result of a check of the options.
     *
     * @throws ParameterException instead of an {@link IllegalArgumentException} of the check, with its message
     */
    protected final <T> T checked(Check<T> check) throws IOException, InterruptedException {
        try {
            return check.run();
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    /** A check of options, and what it makes of them. */
    @FunctionalInterface
    protected interface Check<T> {
        T run() throws IOException, InterruptedException;
    }
}
