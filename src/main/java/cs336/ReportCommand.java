package cs336;

import cs336.bench.LabCommand;
import picocli.CommandLine;
import picocli.CommandLine.Command;

/**
 * The command {@code report}: runs {@code notebooks --portable}, {@code writeup} and {@code site}, and stops at the
 * first failure.
 */
@Command(
        name = "report",
        description = {
            "Runs all notebooks, which draw the figures, and builds the writeup and the website.",
            "Equivalent to the commands 'notebooks --portable', 'writeup' and 'site', one after the other."
        },
        footerHeading = "%nExamples:%n",
        footer = {"  ./cs336 report", "", "Exit codes: 0 built, otherwise that of the first command that failed."})
final class ReportCommand extends LabCommand {
    @Override
    public Integer call() {
        CommandLine main = spec.commandLine().getParent();
        String[][] commands = {{"notebooks", "--portable"}, {"writeup"}, {"site"}};
        for (String[] command : commands) {
            int code = Main.commandLine(command)
                    .setOut(main.getOut())
                    .setErr(main.getErr())
                    .execute(command);
            if (code != CommandLine.ExitCode.OK) {
                return code;
            }
        }
        return CommandLine.ExitCode.OK;
    }
}
