package cs336;

import cs336.bench.BenchmarkCommand;
import cs336.bench.LabCommand;
import cs336.bench.Status;
import cs336.bench.WholeFile;
import cs336.compile.CompileCommand;
import cs336.distributed.bench.AllReduceCommand;
import cs336.distributed.bench.DdpCommand;
import cs336.distributed.bench.FsdpCommand;
import cs336.distributed.bench.ShardCommand;
import cs336.distributed.launch.LaunchCommand;
import cs336.distributed.launch.RankFailure;
import cs336.kernels.KernelsCommand;
import cs336.kernels.attention.AttentionCommand;
import cs336.kernels.attention.FlashCommand;
import cs336.kernels.attention.LeaderboardCommand;
import cs336.kernels.norms.NormsCommand;
import cs336.kernels.norms.WeightedSumCommand;
import cs336.notebook.JupyterLabCommand;
import cs336.notebook.NotebooksCommand;
import cs336.numbers.MeasurementsCommand;
import cs336.planner.PlanCommand;
import cs336.precision.PrecisionCommand;
import cs336.profile.OverlapCommand;
import cs336.profile.ProfileCommand;
import cs336.profile.memory.CheckpointingCommand;
import cs336.profile.memory.MemoryCommand;
import cs336.scaling.AccountingCommand;
import cs336.scaling.laws.IsoFlopsCommand;
import cs336.site.SiteCommand;
import cs336.torch.ProcessEnd;
import cs336.train.TrainCommand;
import cs336.units.HostLoad;
import cs336.writeup.WriteupCommand;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.UsageMessageSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.TypeConversionException;
import picocli.CommandLine.UnmatchedArgumentException;

/**
 * The entry point of the command line, {@code cs336 <command>}. Errors are reported in one line. The exit code is 2 for
 * invalid arguments, and 1 for files that cannot be read or written, including the standard output.
 */
@Command(
        name = "cs336",
        version = "cs336-systems 0.1.0",
        description = "The systems side of training language models, measured from Java.")
public final class Main extends LabCommand {
    private static final List<Class<? extends LabCommand>> COMMANDS = List.of(
            BenchmarkCommand.class,
            ProfileCommand.class,
            OverlapCommand.class,
            MemoryCommand.class,
            CheckpointingCommand.class,
            PrecisionCommand.class,
            CompileCommand.class,
            TrainCommand.class,
            KernelsCommand.class,
            NormsCommand.class,
            WeightedSumCommand.class,
            AttentionCommand.class,
            FlashCommand.class,
            LeaderboardCommand.class,
            AllReduceCommand.class,
            DdpCommand.class,
            ShardCommand.class,
            FsdpCommand.class,
            PlanCommand.class,
            AccountingCommand.class,
            IsoFlopsCommand.class,
            LaunchCommand.class,
            MeasurementsCommand.class,
            JupyterLabCommand.class,
            NotebooksCommand.class,
            WriteupCommand.class,
            SiteCommand.class,
            ReportCommand.class);

    /** The indentation of the second line of an example in the help, and of further ones. */
    private static final String CONTINUATION = " ".repeat(6);

    /** Runs a command and exits with its exit code. */
    public static void main(String[] arguments) {
        System.setProperty("java.awt.headless", "true");
        // All output is English, so numbers in files and messages must be formatted in English, too.
        Locale.setDefault(Locale.ENGLISH);
        HostLoad.warnOnce(System.err::println);
        int exitCode;
        try {
            exitCode = commandLine(arguments).execute(arguments);
        } catch (OutOfMemoryError e) {
            System.err.println("cs336: out of memory (" + e.getMessage() + ")");
            exitCode = CommandLine.ExitCode.SOFTWARE;
        } catch (UnsatisfiedLinkError e) {
            // A JDK draws with libraries of the system, which small containers lack.
            System.err.println("cs336: a native library cannot be loaded: " + e.getMessage());
            exitCode = CommandLine.ExitCode.SOFTWARE;
        }
        if (exitCode == CommandLine.ExitCode.OK && System.out.checkError()) {
            System.err.println("cs336: the standard output could not be written");
            exitCode = CommandLine.ExitCode.SOFTWARE;
        }
        System.exit(exitCode);
    }

    /**
     * Returns the command line for some arguments. If the first one is a command, the other commands are left out,
     * which saves start-up time.
     */
    static CommandLine commandLine(String... arguments) {
        var main = new CommandLine(new Main());
        String first = arguments.length == 0 ? "" : arguments[0];
        boolean isCommand = COMMANDS.stream().map(Main::name).anyMatch(first::equals);
        COMMANDS.stream()
                .filter(command -> !isCommand || name(command).equals(first))
                .forEach(main::addSubcommand);
        // Without this, picocli prints a warning about a value with one quotation mark.
        for (CommandLine command : main.getSubcommands().values()) {
            command.getCommandSpec().parser().splitQuotedStrings(true);
            UsageMessageSpec help = command.getCommandSpec().usageMessage();
            help.footer(Arrays.stream(help.footer())
                    .flatMap(line -> wrapped(line, help.width() - 1).stream())
                    .toArray(String[]::new));
        }
        return main.registerConverter(Path.class, Main::path)
                .setExpandAtFiles(false)
                .setExecutionStrategy(parsed -> {
                    requireCompleteLists(parsed);
                    return new CommandLine.RunLast().execute(parsed);
                })
                .setParameterExceptionHandler(
                        (error, unused) -> fail(error.getCommandLine(), reason(error), CommandLine.ExitCode.USAGE))
                .setExecutionExceptionHandler((error, commandLine, parsed) -> {
                    if (error instanceof IOException e) {
                        return fail(commandLine, WholeFile.reason(e), CommandLine.ExitCode.SOFTWARE);
                    }
                    if (error instanceof UncheckedIOException e) {
                        return fail(commandLine, WholeFile.reason(e.getCause()), CommandLine.ExitCode.SOFTWARE);
                    }
                    if (error instanceof RankFailure e) {
                        return fail(commandLine, e);
                    }
                    if (Status.of(error) == Status.OOM) {
                        return fail(commandLine, "out of memory: " + error.getMessage(), CommandLine.ExitCode.SOFTWARE);
                    }
                    throw error;
                });
    }

    private static String name(Class<? extends LabCommand> command) {
        return command.getAnnotation(Command.class).name();
    }

    /**
     * Breaks a line of the help that shows an example, as its indentation by four spaces tells. A backslash ends each
     * line but the last, so that a shell reads them as one command.
     */
    private static List<String> wrapped(String line, int width) {
        List<String> lines = new ArrayList<>();
        String rest = line;
        while (line.startsWith("    ") && rest.length() > width) {
            int option = rest.lastIndexOf(" --", width - 2);
            int space = option > CONTINUATION.length() ? option : rest.lastIndexOf(' ', width - 2);
            if (space < CONTINUATION.length()) {
                break; // one long argument
            }
            lines.add(rest.substring(0, space) + " \\");
            rest = CONTINUATION + rest.substring(space + 1);
        }
        lines.add(rest);
        return lines;
    }

    private static Path path(String text) {
        try {
            Path path = Path.of(text);
            // The JVM replaces bytes that its encoding does not have, so the name is that of another file.
            if (text.contains("\uFFFD") && Files.notExists(path)) {
                throw new TypeConversionException(
                        "'" + text + "' is not a file name: it has bytes that are not in the JVM's encoding "
                                + System.getProperty("sun.jnu.encoding") + "; rename the file");
            }
            return path;
        } catch (InvalidPathException e) {
            // In the locale C, Java has no name for a file whose name is not ASCII.
            String hint = e.getReason().contains("unmappable") ? "; set LC_ALL to a locale such as C.UTF-8" : "";
            throw new TypeConversionException("'" + text + "' is not a file name: " + e.getReason() + hint);
        }
    }

    /**
     * Checks the values of options that are lists. Without this check, {@code --context 1,} would be a list of one
     * element, and {@code --context ,} an empty one.
     *
     * @throws ParameterException if an element is empty
     */
    private static void requireCompleteLists(CommandLine.ParseResult parsed) {
        for (CommandLine.ParseResult command : parsed.asCommandLineList().stream()
                .map(CommandLine::getParseResult)
                .toList()) {
            for (OptionSpec option : command.matchedOptions()) {
                for (String value : option.originalStringValues()) {
                    if (option.splitRegex().equals(",")
                            && List.of(value.split(",", -1)).contains("")) {
                        throw new ParameterException(
                                command.commandSpec().commandLine(),
                                option.longestName() + " must be a list of values separated by commas, not '" + value
                                        + "'");
                    }
                }
            }
        }
    }

    private static int fail(CommandLine commandLine, String reason, int exitCode) {
        commandLine.getErr().println("cs336: " + reason.lines().findFirst().orElse("unknown error"));
        return exitCode;
    }

    private static int fail(CommandLine commandLine, RankFailure failure) {
        commandLine.getErr().println("cs336: " + failure.getMessage());
        if (failure.report() != null) {
            commandLine.getErr().println("cs336: the last collectives are in " + failure.report());
        }
        commandLine.getErr().flush();
        if (failure.isHere()) {
            ProcessEnd.now(failure.exitCode());
        }
        return failure.exitCode();
    }

    private static String reason(ParameterException error) {
        boolean isRoot = error.getCommandLine().getParent() == null;
        if (error instanceof UnmatchedArgumentException unmatched && isRoot && !unmatched.isUnknownOption()) {
            return "command '" + unmatched.getUnmatched().get(0) + "' is unknown; known: "
                    + String.join(", ", error.getCommandLine().getSubcommands().keySet());
        }
        return error.getMessage();
    }

    @Override
    public Integer call() {
        throw new ParameterException(spec.commandLine(), "a command is missing; see ./cs336 --help");
    }
}
