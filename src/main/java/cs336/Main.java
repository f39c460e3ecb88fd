package cs336;

import cs336.bench.BenchmarkCommand;
import cs336.notebook.NotebooksCommand;
import cs336.report.WriteupCommand;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The command line: {@code cs336 <command> --help}. A user's error is one line and exit code 2. */
@Command(
        name = "cs336",
        mixinStandardHelpOptions = true,
        version = "cs336-systems 0.1.0",
        description = "The systems side of training language models, measured from Java.",
        subcommands = {BenchmarkCommand.class, NotebooksCommand.class, WriteupCommand.class, ReportCommand.class})
public final class Main implements Runnable {
    @Spec
    private CommandSpec spec;

    /** Runs a command and exits with its code. */
    public static void main(String[] arguments) {
        System.setProperty("java.awt.headless", "true");
        System.exit(commandLine().execute(arguments));
    }

    /** The command line with all its commands. */
    static CommandLine commandLine() {
        return new CommandLine(new Main()).setParameterExceptionHandler((error, arguments) -> {
            error.getCommandLine()
                    .getErr()
                    .println("cs336: " + error.getMessage().lines().findFirst().orElse("bad arguments"));
            return CommandLine.ExitCode.USAGE;
        });
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "a command is missing; see cs336 --help");
    }
}
