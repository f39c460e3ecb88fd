package cs336;

import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** The main job: all notebooks, which draw the figures, then the writeup. Stops at the first that fails. */
@Command(
        name = "report",
        mixinStandardHelpOptions = true,
        description = {
            "Runs all notebooks, redraws the figures, and builds the writeup.",
            "The same as the commands notebooks and writeup, one after the other."
        })
final class ReportCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() {
        CommandLine all = spec.commandLine().getParent();
        String[][] commands = {{"notebooks", "--portable"}, {"writeup"}};
        for (String[] command : commands) {
            int code = all.execute(command);
            if (code != CommandLine.ExitCode.OK) {
                return code;
            }
        }
        return CommandLine.ExitCode.OK;
    }
}
