package cs336.distributed.launch;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.stream.Collectors;

/**
 * The error file of a failed run: the failure, and the state and the last collectives of each rank, like the flight
 * recorder of PyTorch.
 */
final class FailureReport {
    /** Environment variable with the folder of the error files; by default the folder for temporary files. */
    static final String FOLDER = "CS336_FAILURES";

    /** The number of error files that are kept; the oldest ones are deleted. */
    static final int MOST_FILES = 100;

    private static final String PREFIX = "cs336-failure-";
    private static final String SUFFIX = ".txt";

    private FailureReport() {}

    /**
     * The state of one rank at the failure.
     *
     * @param state one line
     * @param lastCalls the last collectives with their numbers, as far as known
     * @param details the stack trace and the last lines of output, as far as known
     */
    record RankState(int rank, String state, List<String> lastCalls, String details) {}

    /**
     * Writes the file into the folder of error files, readable by this user only. If the disk is full, no file is left.
     *
     * @return the file; null if it cannot be written
     */
    static Path write(String failure, List<RankState> ranks) {
        String folder = System.getenv(FOLDER);
        return write(
                Path.of(folder == null || folder.isBlank() ? System.getProperty("java.io.tmpdir") : folder),
                failure,
                ranks);
    }

    static Path write(Path folder, String failure, List<RankState> ranks) {
        var text = new StringJoiner("\n", "", "\n");
        text.add(Instant.now().truncatedTo(ChronoUnit.SECONDS) + " " + failure);
        for (RankState rank : ranks) {
            text.add("").add("rank " + rank.rank + ": " + rank.state);
            text.add("  last collectives:" + (rank.lastCalls.isEmpty() ? " none known" : ""));
            rank.lastCalls.forEach(call -> text.add("    " + call));
            if (!rank.details.isEmpty()) {
                text.add("  stack trace and last output:")
                        .add(rank.details.indent(4).stripTrailing());
            }
        }
        try {
            Files.createDirectories(folder);
            Path file = Files.createTempFile(folder, PREFIX, SUFFIX);
            try {
                Files.write(file, text.toString().getBytes(StandardCharsets.UTF_8));
            } catch (IOException e) {
                Files.delete(file);
                throw e;
            }
            deleteOldest(folder);
            return file;
        } catch (IOException e) {
            return null; // the failure itself is more important than its report
        }
    }

    private static void deleteOldest(Path folder) {
        File[] files = folder.toFile().listFiles((in, name) -> name.startsWith(PREFIX) && name.endsWith(SUFFIX));
        if (files != null) {
            // The times are read once, as another process may delete a file meanwhile.
            Map<File, Long> times = Arrays.stream(files).collect(Collectors.toMap(file -> file, File::lastModified));
            Arrays.stream(files)
                    .sorted(Comparator.comparing(times::get).reversed())
                    .skip(MOST_FILES)
                    .forEach(File::delete);
        }
    }
}
