package cs336.distributed.launch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.StringJoiner;

/**
 * The error file of a failed run: the failure, and the state and the last collectives of each rank, like the flight
 * recorder of PyTorch.
 */
final class FailureReport {
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
     * Writes the file into the folder for temporary files, readable by this user only.
     *
     * @return the file; null if it cannot be written
     */
    static Path write(String failure, List<RankState> ranks) {
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
            return Files.writeString(Files.createTempFile("cs336-failure-", ".txt"), text.toString());
        } catch (IOException e) {
            return null; // the failure itself is more important than its report
        }
    }
}
