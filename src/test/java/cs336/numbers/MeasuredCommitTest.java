package cs336.numbers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Git;
import cs336.bench.Project;
import cs336.numbers.MeasurementsCommand.StaleRows;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class MeasuredCommitTest {
    private static final String PRECISION = "src/main/java/cs336/precision/Rounding.java";
    private static final String HEADER =
            "on,implementation,metric,unit,n,mean,std,median,min,max,status,device,versions,commit,date\n";

    @TempDir
    Path folder;

    private String commit(String subject, String file, String content) throws IOException {
        Path path = folder.resolve(file);
        Files.createDirectories(path.getParent());
        Files.writeString(path, content);
        assertNotNull(Git.output(folder, "add", "-A"));
        assertNotNull(
                Git.output(folder, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", subject),
                "commit failed");
        return Git.output(folder, "rev-parse", "--short=10", "HEAD");
    }

    private static String row(String on, String versions, String commit, String date) {
        return on + ",torch,bits,bits,1,8,,8,8,8,ok,CPU," + versions + "," + commit + "," + date + "\n";
    }

    private List<MeasuredCommit> list(String rows) throws IOException {
        Path machine = Files.createDirectories(folder.resolve("data/measurements/cpu"));
        Files.writeString(machine.resolve("mixed_precision.csv"), HEADER + rows);
        Files.writeString(machine.resolve("mixed_precision_steps.csv"), "case,step,value\na,1,2\n"); // no commits
        return MeasuredCommit.list(folder, folder.resolve("data/measurements"));
    }

    /** The writeup names these files among what is not measured; no other file may have such rows. */
    @Test
    void onlyListedFilesHaveRowsOfBuildsWithLocalChanges() throws IOException {
        Path measurements = Project.path("data/measurements");
        List<String> files;
        try (Stream<Path> all = Files.walk(measurements, 2)) {
            files = all.filter(file -> file.toString().endsWith(".csv"))
                    .filter(MeasuredCommitTest::hasLocalChanges)
                    .map(file -> measurements.relativize(file).toString())
                    .sorted()
                    .toList();
        }
        assertEquals(
                List.of(
                        "h200-x4/ddp_benchmarking.csv",
                        "h200-x4/link_topology.csv",
                        "slurm-2-nodes-emulated/distributed_communication_multi_node.csv"),
                files);
    }

    private static boolean hasLocalChanges(Path file) {
        try {
            return Files.readString(file).contains("+dirty,");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void rowsAreOlderThanTheLastChangeOfTheirSources() throws IOException {
        Git.output(folder, "init", "-q");
        String first = commit("Round", PRECISION, "1");
        String other = commit("Describe", "README.md", "1");
        String rows = row("a", "java 17", first, "2026-01-02T00:00:00Z")
                + row("b", "java 17", first, "2026-01-01T00:00:00Z")
                + row("c", "java 17", other + "+dirty", "2026-01-03T00:00:00Z");
        assertTrue(list(rows).stream().allMatch(each -> each.change().isEmpty()), "only README.md has changed");

        String second = commit("Round to even", PRECISION, "2");
        List<MeasuredCommit> commits = list(rows
                + row("d", "java 17", second, "2026-01-04T00:00:00Z")
                + row("e", "python 3.12", first, "2026-01-04T00:00:00Z")
                + row("f", "java 17", "unknown", "2026-01-04T00:00:00Z"));
        String change = commits.stream()
                .filter(each -> each.commit().equals(first) && each.rows() == 2)
                .findFirst()
                .orElseThrow()
                .change();
        assertTrue(change.matches("[0-9a-f]{7,} \\d{4}-\\d\\d-\\d\\d Round to even"), change);
        assertEquals(
                List.of("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"),
                commits.stream()
                        .filter(each -> !each.change().isEmpty())
                        .map(MeasuredCommit::lastDate)
                        .sorted()
                        .toList());
        assertEquals(
                List.of("", "the commit is not in this repository"),
                commits.stream()
                        .filter(each -> each.lastDate().startsWith("2026-01-04"))
                        .map(MeasuredCommit::change)
                        .distinct()
                        .toList(),
                "peers/ has not changed");
    }

    @Test
    void commitsThatSayThatTheyAffectNoMeasurementDoNotCount() throws IOException {
        Git.output(folder, "init", "-q");
        String measured = commit("Round", PRECISION, "1");
        String rows = row("a", "java 17", measured, "2026-01-01T00:00:00Z");
        commit("Rename\n\nClearer.\n\nMeasurements: unaffected", PRECISION, "2");
        assertEquals("", list(rows).get(0).change());
        commit("Say when Measurements: unaffected is right", PRECISION, "3");
        String change = list(rows).get(0).change();
        assertTrue(change.endsWith("is right"), change);
        commit("Describe\n\nMeasurements: unaffected", PRECISION, "4");
        assertEquals(change, list(rows).get(0).change(), "the change before counts");
    }

    @Test
    void staleRowsAreCountedForEachFileAndChange() {
        var commits = List.of(
                new MeasuredCommit("cpu/a.csv", "1", 10, "2026-01-02", "x"),
                new MeasuredCommit("cpu/a.csv", "2", 20, "2026-01-01", "y"),
                new MeasuredCommit("cpu/a.csv", "3", 5, "2026-01-03", "x"),
                new MeasuredCommit("cpu/b.csv", "1", 7, "2026-01-01", "x"));
        assertEquals(
                List.of(
                        new StaleRows("cpu/a.csv", 2, 15, "2026-01-03", "x"),
                        new StaleRows("cpu/a.csv", 1, 20, "2026-01-01", "y"),
                        new StaleRows("cpu/b.csv", 1, 7, "2026-01-01", "x")),
                StaleRows.of(commits));
    }

    @Test
    void commitsAreListedOnlyOnRequest() throws IOException {
        Files.createDirectories(folder.resolve("empty"));
        String all = print("--input", folder.resolve("empty").toString());
        assertTrue(all.startsWith("file  commit  rows"), all);
        String counted = print("--stale", "--input", folder.resolve("empty").toString());
        assertTrue(counted.startsWith("file  commits  rows"), counted);
        String listed =
                print("--stale", "--commits", "--input", folder.resolve("empty").toString());
        assertTrue(listed.startsWith("file  commit  rows"), listed);
        assertEquals("--commits has no effect without --stale", print("--commits"));
    }

    /** Returns the output of the command, or the message about its arguments. */
    private static String print(String... arguments) {
        var text = new StringWriter();
        new CommandLine(new MeasurementsCommand())
                .setParameterExceptionHandler((e, args) -> {
                    text.write(e.getMessage());
                    return 2;
                })
                .setOut(new PrintWriter(text))
                .execute(arguments);
        return text.toString();
    }

    @Test
    void withoutARepositoryThereIsOneClearLine() {
        var e = assertThrows(IOException.class, () -> list(""));
        assertEquals(
                "commits cannot be compared: git is missing, or " + folder + " is not a repository", e.getMessage());
    }

    @Test
    void everyStoredFileHasSourcesAndEverySourceExists() throws IOException {
        try (Stream<Path> files = Files.walk(Project.path("data/measurements"), 2)) {
            files.map(file -> file.getFileName().toString())
                    .filter(name -> name.endsWith(".csv"))
                    .forEach(name -> assertFalse(
                            MeasuredSources.of(name.replace(".csv", ""), "").isEmpty(), name));
        }
        for (String source : MeasuredSources.all()) {
            String path = source.replace(":(glob)", "").replaceFirst("/[^/]*\\*.*", "");
            assertTrue(Files.exists(Project.path(path)), source);
        }
    }
}
