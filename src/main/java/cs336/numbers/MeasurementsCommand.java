package cs336.numbers;

import cs336.bench.AlignedText;
import cs336.bench.LabCommand;
import cs336.bench.Project;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** The command {@code measurements}: lists the commits at which the stored rows were measured. */
@Command(
        name = "measurements",
        description = {
            "Lists the commits at which the stored rows were measured, and the latest commit since then that changed the"
                    + " sources they measure.",
            "With --stale it counts the rows that are older than their sources, for each file and change.",
            "Commits whose message has the line 'Measurements: unaffected' do not count as changes.",
            "Needs git and this project's repository."
        },
        footerHeading = "%nExamples:%n",
        footer = {"  ./cs336 measurements", "  ./cs336 measurements --stale", "  ./cs336 measurements --stale --commits"
        })
public final class MeasurementsCommand extends LabCommand {
    @Option(
            names = "--stale",
            description =
                    "count only rows whose sources have changed since they were measured, or for which this is not known")
    private boolean stale;

    @Option(names = "--commits", description = "with --stale, list the commits at which these rows were measured")
    private boolean listCommits;

    @Option(
            names = "--input",
            defaultValue = "data/measurements",
            paramLabel = "<folder>",
            description = "folder of the measurements of all machines")
    private Path input;

    @Override
    public Integer call() throws IOException {
        checked(() -> {
            if (!stale) {
                requireNotGiven("without --stale", "--commits");
            }
            if (!Files.isDirectory(input) || input.toString().isEmpty()) {
                throw new IllegalArgumentException("--input must be a folder, not '" + input + "'");
            }
            return null;
        });
        List<MeasuredCommit> commits = MeasuredCommit.list(Project.path(""), input).stream()
                .filter(each -> !stale || !each.change().isEmpty())
                .toList();
        int rows = commits.stream().mapToInt(MeasuredCommit::rows).sum();
        out().println(AlignedText.of(
                stale && !listCommits
                        ? Tables.of(StaleRows.class, StaleRows.of(commits))
                        : Tables.of(MeasuredCommit.class, commits)));
        out().printf("%,d %s%n", rows, stale ? "rows are older than their sources, or this is not known" : "rows");
        out().flush();
        return 0;
    }

    /** The rows of a file whose sources have changed in one commit, or for which this is unknown for one reason. */
    record StaleRows(
            String file,
            int commits,
            int rows,
            @Header("last measured") String lastDate,
            @Header("sources changed in") String change) {
        /** Returns the sums of these commits' rows, in the order in which file and change first appear. */
        static List<StaleRows> of(List<MeasuredCommit> commits) {
            var groups = commits.stream()
                    .collect(Collectors.groupingBy(
                            each -> List.of(each.file(), each.change()), LinkedHashMap::new, Collectors.toList()));
            return groups.values().stream()
                    .map(each -> new StaleRows(
                            each.get(0).file(),
                            each.size(),
                            each.stream().mapToInt(MeasuredCommit::rows).sum(),
                            each.stream()
                                    .map(MeasuredCommit::lastDate)
                                    .max(Comparator.naturalOrder())
                                    .orElseThrow(),
                            each.get(0).change()))
                    .toList();
        }
    }
}
