package cs336.bench;

import java.io.IOException;
import java.io.PrintWriter;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * Base class of all commands. A command checks its options in {@link #checked} before it starts its work, so that an
 * invalid option is reported in one line with exit code 2.
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
     * Runs a check of the options and returns its result.
     *
     * @throws ParameterException if the check throws an {@link IllegalArgumentException}, with the same message
     */
    protected final <T, E extends Exception> T checked(OptionCheck<T, E> check) throws IOException, E {
        try {
            return check.run();
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    /**
     * Checks that options which have no effect are not given.
     *
     * @param why the reason, such as {@code with --answers}
     * @throws IllegalArgumentException if one of the options is given
     */
    protected final void requireNotGiven(String why, String... options) {
        for (String option : options) {
            if (spec.commandLine().getParseResult().hasMatchedOption(option)) {
                throw new IllegalArgumentException(option + " has no effect " + why);
            }
        }
    }

    /**
     * Checks that only options which have an effect are given.
     *
     * @param why the reason why other options have no effect, such as {@code with --answers}
     * @param effective the names of the options that may be given
     * @throws IllegalArgumentException if another option is given
     */
    protected final void requireOnly(String why, String... effective) {
        for (OptionSpec option : spec.commandLine().getParseResult().matchedOptions()) {
            if (!List.of(effective).contains(option.longestName())) {
                throw new IllegalArgumentException(option.longestName() + " has no effect " + why);
            }
        }
    }

    /**
     * A check of options that returns a value derived from them.
     *
     * @param <T> the type of the value
     * @param <E> the exception that the check throws in addition to {@link IOException}
     */
    @FunctionalInterface
    protected interface OptionCheck<T, E extends Exception> {
        T run() throws IOException, E;
    }
}
