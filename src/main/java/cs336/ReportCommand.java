package cs336;

import cs336.bench.LabCommand;
import picocli.CommandLine;
import picocli.CommandLine.Command;

/**
 * The command {@code report}: runs {@code notebooks --portable}, then {@code writeup}, and stops at the first failure.
 */
@Command(
        name = "report",
        description = {
            "Runs all notebooks, which draw the figures, and builds the writeup.",
            "Equivalent to the command 'notebooks --portable' followed by the command 'writeup'."
        })
final class ReportCommand extends LabCommand {
    @Override
    public Integer call() {
        CommandLine main = spec.commandLine().getParent();
        String[][] commands = {{"notebooks", "--portable"}, {"writeup"}};
        for (String[] command : commands) {
            int code = main.execute(command);
            if (code != CommandLine.ExitCode.OK) {
                return code;
            }
        }
        return CommandLine.ExitCode.OK;
    }
}
