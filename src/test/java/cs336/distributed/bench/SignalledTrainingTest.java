package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.Main;
import cs336.bench.AttackCount;
import cs336.bench.TestJvm;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * The training commands, while one of their ranks gets a signal. More signals than the one of the test suite:
 * {@code mvn test -Dtest=SignalledTrainingTest -Djvm.flags=-Dcs336.signals=12}.
 */
@Timeout(600)
class SignalledTrainingTest {
    private static final int CASES = Integer.getInteger("cs336.signals", 1);
    private static final List<String> COMMANDS = List.of("ddp", "shard --mode zero-1", "fsdp --mode fsdp");
    private static final List<String> SIGNALS = List.of("STOP", "SEGV", "TERM", "KILL");
    private static final int RANKS = 3;
    private static final int TIMEOUT_S = 5;
    private static final int BOUND_S = 30;
    private static final int LONGEST_WAIT_MS = 1000;

    @TempDir
    Path folder;

    private final SplittableRandom random = new SplittableRandom(3);

    @Test
    void theRunEndsInTimeAndNamesTheRank() throws Exception {
        for (int i = 0; i < CASES; i++) {
            signal(COMMANDS.get(i % COMMANDS.size()), SIGNALS.get(i / COMMANDS.size() % SIGNALS.size()));
        }
        AttackCount.faults(CASES, "signals to a rank of training");
    }

    private void signal(String command, String signal) throws IOException, InterruptedException {
        Path run = Files.createTempDirectory(folder, "run");
        Path output = run.resolve("output.txt");
        Path errors = run.resolve("errors.txt");
        Process training = TestJvm.of(Main.class, arguments(command, run.resolve("checkpoints")))
                .redirectOutput(output.toFile())
                .redirectError(errors.toFile())
                .start();
        try {
            while (!Files.readString(output).contains("step")) {
                assertTrue(training.isAlive(), command + ": " + Files.readString(errors));
                Thread.sleep(50);
            }
            Thread.sleep(random.nextInt(LONGEST_WAIT_MS));
            List<ProcessHandle> ranks = training.children().toList();
            assertEquals(RANKS, ranks.size(), command);
            String victim = String.valueOf(ranks.get(random.nextInt(RANKS)).pid());
            assertEquals(
                    0, new ProcessBuilder("kill", "-" + signal, victim).start().waitFor());
            assertTrue(training.waitFor(BOUND_S, TimeUnit.SECONDS), command + " goes on after SIG" + signal);
            String said = Files.readString(errors);
            assertEquals(1, training.exitValue(), said);
            assertTrue(said.contains("cs336: rank "), said);
            for (ProcessHandle rank : ranks) {
                assertFalse(rank.isAlive(), "process " + rank.pid() + " is left by " + command);
            }
        } finally {
            training.descendants().forEach(ProcessHandle::destroyForcibly);
            training.destroyForcibly();
        }
    }

    private static String[] arguments(String command, Path checkpoints) {
        var all = new ArrayList<>(List.of(command.split(" ")));
        all.addAll(List.of(("--d-model 64 --layers 2 --heads 2 --vocab 500 --batch 2 --context 32 --device cpu"
                        + " --steps 1000000 --processes " + RANKS + " --timeout " + TIMEOUT_S)
                .split(" ")));
        all.addAll(List.of("--checkpoint", checkpoints.toString()));
        return all.toArray(String[]::new);
    }
}
