package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.TestJvm;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(300)
class TurnsTest {
    private static final Duration NO_TURN = Duration.ofMillis(200);

    @TempDir
    Path folder;

    /** A program that measures two rounds. */
    public static final class TwoRounds {
        private TwoRounds() {}

        public static void main(String[] args) throws IOException, InterruptedException {
            for (int round = 1; round <= 2; round++) {
                Turns.await();
                System.out.println("round " + round);
            }
        }
    }

    private static Process start(Path beginning) throws IOException {
        var builder = TestJvm.of(TwoRounds.class).redirectError(ProcessBuilder.Redirect.DISCARD);
        if (beginning != null) {
            builder.environment().put("CS336_TURNS", beginning.toString());
        }
        return builder.start();
    }

    @Test
    void aRoundWaitsForItsTurn() throws Exception {
        Process program = start(folder.resolve("7"));
        Path waits = folder.resolve("7.waits");
        try (BufferedReader output = program.inputReader()) {
            for (int round = 1; round <= 2; round++) {
                while (!Files.exists(waits)) {
                    Thread.sleep(5);
                }
                Thread.sleep(NO_TURN.toMillis());
                assertFalse(output.ready(), "round " + round + " began before its turn");
                Files.delete(waits);
                Files.writeString(folder.resolve("7.turn"), "");
                assertEquals("round " + round, output.readLine());
            }
            assertTrue(program.waitFor(120, TimeUnit.SECONDS));
            assertEquals(0, program.exitValue());
        } finally {
            program.destroyForcibly();
        }
    }

    @Test
    void aProgramWithoutOthersDoesNotWait() throws Exception {
        Process program = start(null);
        try {
            assertTrue(program.waitFor(120, TimeUnit.SECONDS));
            assertEquals(0, program.exitValue());
        } finally {
            program.destroyForcibly();
        }
    }
}
