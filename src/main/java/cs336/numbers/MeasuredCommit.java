package cs336.numbers;

import cs336.bench.Git;
import cs336.bench.Measurements;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import tech.tablesaw.api.Row;

/**
 * The rows of a file of measurements that were measured at one commit.
 *
 * @param file the file, as in {@code h200/flash_benchmarking.csv}
 * @param commit the commit
 * @param rows number of rows
 * @param lastDate date of the latest row
 * @param change the latest commit after {@code commit} that changed the measured sources, or the reason why it is
 *     unknown; empty if the sources did not change. Commits with {@value #UNAFFECTED} as a line of their message, such
 *     as changes of comments, do not count
 */
record MeasuredCommit(
        String file,
        String commit,
        int rows,
        @Header("last measured") String lastDate,
        @Header("sources changed in") String change) {
    private static final String UNAFFECTED = "Measurements: unaffected";

    /** The commit and the sources of some rows. */
    private record MeasuredAt(String commit, List<String> sources) {}

    /**
     * Returns the commits of all measurements, sorted by file.
     *
     * @param root the project's folder
     * @param measurements folder of the measurements of all machines
     * @throws IOException if a file is damaged, or git or the repository is missing
     */
    static List<MeasuredCommit> list(Path root, Path measurements) throws IOException {
        if (Git.output(root, "rev-parse", "HEAD") == null) {
            throw new IOException("commits cannot be compared: git is missing, or " + root + " is not a repository");
        }
        var commits = new ArrayList<MeasuredCommit>();
        var changes = new LinkedHashMap<MeasuredAt, String>();
        for (Path csv : files(measurements)) {
            String name = csv.getParent().getFileName() + "/" + csv.getFileName();
            for (Map.Entry<MeasuredAt, List<String>> each : datesByCommit(csv).entrySet()) {
                MeasuredAt at = each.getKey();
                List<String> dates = each.getValue();
                String change = changes.computeIfAbsent(at, a -> change(root, a));
                commits.add(new MeasuredCommit(
                        name,
                        at.commit,
                        dates.size(),
                        dates.stream().sorted().toList().get(dates.size() - 1),
                        change));
            }
        }
        return commits;
    }

    private static List<Path> files(Path measurements) throws IOException {
        try (Stream<Path> files = Files.walk(measurements, 2)) {
            return files.filter(file -> file.toString().endsWith(".csv"))
                    .filter(file -> !file.toString().endsWith("_steps.csv")) // their commits are in the main file
                    .sorted()
                    .toList();
        }
    }

    private static Map<MeasuredAt, List<String>> datesByCommit(Path csv) throws IOException {
        String problem = csv.getFileName().toString().replaceFirst("\\.csv$", "");
        var dates = new TreeMap<String, Map<MeasuredAt, List<String>>>();
        for (Row row : Measurements.read(csv)) {
            var at = new MeasuredAt(row.getString("commit"), MeasuredSources.of(problem, row.getString("versions")));
            dates.computeIfAbsent(at.commit, c -> new LinkedHashMap<>())
                    .computeIfAbsent(at, a -> new ArrayList<>())
                    .add(row.getString("date"));
        }
        var all = new LinkedHashMap<MeasuredAt, List<String>>();
        dates.values().forEach(all::putAll);
        return all;
    }

    private static String change(Path root, MeasuredAt at) {
        if (at.sources.isEmpty()) {
            return "no sources are declared for this file";
        }
        var command = new ArrayList<>(List.of(
                "log",
                "-1",
                "--format=%h %cs %s",
                "--basic-regexp",
                "--invert-grep",
                "--grep=^" + UNAFFECTED + "$",
                at.commit.replace("+dirty", "") + "..HEAD",
                "--"));
        command.addAll(at.sources);
        String change = Git.output(root, command.toArray(String[]::new));
        return change == null ? "the commit is not in this repository" : change;
    }
}
