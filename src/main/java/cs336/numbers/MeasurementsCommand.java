package cs336.numbers;

import cs336.bench.AlignedText;
import cs336.bench.LabCommand;
import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** The command {@code measurements}: lists the commits at which the stored rows were measured. */
@Command(
        name = "measurements",
        description = {
            "Lists the commits at which the stored rows were measured, and the latest commit since then that changed the"
                    + " sources they measure.",
            "Needs git and this project's repository."
        },
        footerHeading = "%nExamples:%n",
        footer = {"  ./cs336 measurements", "  ./cs336 measurements --stale"})
public final class MeasurementsCommand extends LabCommand {
    @Option(
            names = "--stale",
            description =
                    "list only rows whose sources have changed since they were measured, or for which this is not known")
    private boolean stale;

    @Option(
            names = "--input",
            defaultValue = "data/measurements",
            paramLabel = "<folder>",
            description = "folder of the measurements of all machines")
    private Path input;

    @Override
    public Integer call() throws IOException {
        checked(() -> {
            if (!Files.isDirectory(input) || input.toString().isEmpty()) {
                throw new IllegalArgumentException("--input must be a folder, not '" + input + "'");
            }
            return null;
        });
        List<MeasuredCommit> commits = MeasuredCommit.list(Project.path(""), input).stream()
                .filter(each -> !stale || !each.change().isEmpty())
                .toList();
        int rows = commits.stream().mapToInt(MeasuredCommit::rows).sum();
        out().println(AlignedText.of(Tables.of(MeasuredCommit.class, commits)));
        out().printf("%,d %s%n", rows, stale ? "rows are older than their sources, or this is not known" : "rows");
        out().flush();
        return 0;
    }
}
