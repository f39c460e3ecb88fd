package cs336.compile;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Turns of several processes that measure on one GPU in alternating rounds. The program {@code peers/alternate.py}
 * starts the processes and gives a turn only while all others wait, so that no process compiles while another one
 * measures. A process that it did not start takes every turn at once.
 *
 * <p>The environment variable {@code CS336_TURNS} is the beginning of two file names: a process that waits for its turn
 * creates {@code <beginning>.waits}, and {@code <beginning>.turn} ends the wait.
 */
final class Turns {
    private static final String VARIABLE = "CS336_TURNS";
    private static final long POLL_MS = 5;

    private Turns() {}

    /** Waits for this process's turn. The turn ends with the next call, or with the process. */
    static void await() throws IOException, InterruptedException {
        if (areGiven()) {
            String beginning = System.getenv(VARIABLE);
            Files.writeString(Path.of(beginning + ".waits"), "");
            while (!Files.deleteIfExists(Path.of(beginning + ".turn"))) {
                Thread.sleep(POLL_MS);
            }
        }
    }

    /** Returns whether other processes use the machine while this one has no turn. */
    static boolean areGiven() {
        String beginning = System.getenv(VARIABLE);
        return beginning != null && !beginning.isBlank();
    }
}
