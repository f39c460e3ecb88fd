package cs336.train;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.AttackCount;
import cs336.bench.TestJvm;
import cs336.checkpoints.CheckpointFolder;
import cs336.safetensors.Safetensors;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/**
 * Training in a process that saves a checkpoint after each step. It is killed alternately while it writes one and at a
 * random time. More kills than the five of the test suite: {@code mvn test -Dtest=KilledTrainingTest
 * -Djvm.flags=-Dcs336.kills=30}.
 */
@Timeout(300)
class KilledTrainingTest {
    private static final int KILLS = Integer.getInteger("cs336.kills", 5);
    private static final int STEPS_PER_KILL = 40;
    private static final int MOST_STEPS = 25; // before a kill, in addition to those during the wait
    private static final int LONGEST_WAIT_US = 10_000;
    private static final int MOST_ATTEMPTS = 10; // to kill during a write
    private static final long SEED = 11;

    @TempDir
    Path folder;

    /** The command {@code train} in a process of its own. */
    public static final class TrainingProcess {
        public static void main(String[] arguments) {
            System.exit(new CommandLine(new TrainCommand()).execute(arguments));
        }
    }

    private String[] arguments(Path checkpoints) throws IOException {
        Path text = folder.resolve("text.txt");
        Files.writeString(text, "the quick brown fox jumps over the lazy dog. ".repeat(20));
        String model = "--d-model 64 --layers 1 --heads 2 --vocab 256 --context 8 --batch 2 --device cpu --dtype fp16";
        var all = new ArrayList<>(List.of(model.split(" ")));
        all.addAll(List.of("--steps", String.valueOf(STEPS_PER_KILL * (KILLS + 1)), "--log-every", "1"));
        all.addAll(List.of("--text", text.toString(), "--resume", "--checkpoint-every", "1"));
        all.addAll(List.of("--checkpoint", checkpoints.toString()));
        return all.toArray(String[]::new);
    }

    private Process start(Path checkpoints) throws IOException {
        return TestJvm.of(TrainingProcess.class, arguments(checkpoints))
                .redirectError(folder.resolve("errors.txt").toFile())
                .start();
    }

    @Test
    void theLastCheckpointEqualsThatOfAnUninterruptedRun() throws Exception {
        Path whole = folder.resolve("whole");
        Path parts = folder.resolve("parts");
        Process uninterrupted = start(whole);
        var random = new SplittableRandom(SEED);
        int unfinished = 0;
        for (int kill = 1; kill <= KILLS; kill++) {
            boolean duringWrite = kill % 2 == 1;
            int found = 0;
            for (int attempt = 0; attempt < (duringWrite ? MOST_ATTEMPTS : 1) && found == 0; attempt++) {
                int more = random.nextInt(MOST_STEPS);
                int waitUs = random.nextInt(LONGEST_WAIT_US);
                found = duringWrite ? trainAndKillDuringWrite(parts) : trainAndKill(parts, more, waitUs);
            }
            unfinished += found;
        }
        assertTrue(unfinished > 0, "no kill while a checkpoint was written");
        requireEnd(start(parts));
        requireEnd(uninterrupted);
        String name = String.format("step-%09d.safetensors", STEPS_PER_KILL * (KILLS + 1));
        assertArrayEquals(Files.readAllBytes(whole.resolve(name)), Files.readAllBytes(parts.resolve(name)));
        AttackCount.faults(KILLS, "kills of training, " + unfinished + " of them while a checkpoint was written");
    }

    /** Trains, kills the process after more steps and a wait, and returns the number of unfinished files. */
    private int trainAndKill(Path checkpoints, int more, int waitUs) throws Exception {
        return trainAndKill(checkpoints, (training, lines) -> {
            for (int i = 0; i < more; i++) {
                lines.readLine();
            }
            TimeUnit.MICROSECONDS.sleep(waitUs);
        });
    }

    /**
     * Trains, kills the process when a file is unfinished, and returns the number of unfinished files: 0 if the file
     * was finished before the process ended.
     */
    private int trainAndKillDuringWrite(Path checkpoints) throws Exception {
        return trainAndKill(checkpoints, (training, lines) -> {
            while (unfinished(checkpoints) == 0) {
                assertTrue(training.isAlive(), "training ended before it was killed");
            }
        });
    }

    /** The time between the first step of a process and its kill. */
    private interface KillTime {
        void await(Process training, BufferedReader lines) throws Exception;
    }

    private int trainAndKill(Path checkpoints, KillTime time) throws Exception {
        long before = Math.max(0, CheckpointFolder.lastStep(checkpoints));
        Process training = start(checkpoints);
        try (var lines = training.inputReader()) {
            assertEquals(before + 1, step(lines.readLine()), "first step after a kill");
            time.await(training, lines);
        } finally {
            training.destroyForcibly().waitFor();
        }
        requireIntact(checkpoints);
        return unfinished(checkpoints);
    }

    /** Returns the number of the step in a line of output. */
    private static long step(String line) {
        Matcher step = Pattern.compile("step +(\\d+) .*").matcher(String.valueOf(line));
        assertTrue(step.matches(), line);
        return Long.parseLong(step.group(1));
    }

    private static void requireEnd(Process training) throws IOException, InterruptedException {
        training.getInputStream().transferTo(OutputStream.nullOutputStream());
        assertEquals(0, training.waitFor());
    }

    /** Checks all complete checkpoints in a folder. */
    private static void requireIntact(Path checkpoints) throws IOException {
        try (var files = Files.newDirectoryStream(checkpoints, "step-*.safetensors")) {
            for (Path file : files) {
                try (Safetensors saved = Safetensors.open(file)) {
                    saved.requireIntact();
                }
            }
        }
    }

    /** Returns the number of unfinished files in a folder. */
    private static int unfinished(Path checkpoints) throws IOException {
        int number = 0;
        try (var files = Files.newDirectoryStream(checkpoints, "step-*.part")) {
            for (Path file : files) {
                number++;
            }
        }
        return number;
    }
}
