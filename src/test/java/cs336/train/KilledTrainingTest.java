package cs336.train;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.AttackCount;
import cs336.bench.TestJvm;
import cs336.checkpoints.CheckpointFolder;
import cs336.safetensors.Safetensors;
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
 * Training in a process that is killed at random times while it saves a checkpoint after each step. More kills than the
 * five of the test suite: {@code mvn test -Dtest=KilledTrainingTest -Djvm.flags=-Dcs336.kills=30}.
 */
@Timeout(300)
class KilledTrainingTest {
    private static final int KILLS = Integer.getInteger("cs336.kills", 5);
    private static final int STEPS_PER_KILL = 40;
    private static final int MOST_STEPS = 25; // before a kill, in addition to those during the wait
    private static final int LONGEST_WAIT_US = 10_000;
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
            long before = Math.max(0, CheckpointFolder.lastStep(parts));
            Process training = start(parts);
            try (var lines = training.inputReader()) {
                assertEquals(before + 1, step(lines.readLine()), "first step after a kill");
                int more = random.nextInt(MOST_STEPS);
                for (int i = 0; i < more; i++) {
                    lines.readLine();
                }
                TimeUnit.MICROSECONDS.sleep(random.nextInt(LONGEST_WAIT_US));
                training.destroyForcibly().waitFor();
            }
            unfinished += requireIntact(parts);
        }
        requireEnd(start(parts));
        requireEnd(uninterrupted);
        String name = String.format("step-%09d.safetensors", STEPS_PER_KILL * (KILLS + 1));
        assertArrayEquals(Files.readAllBytes(whole.resolve(name)), Files.readAllBytes(parts.resolve(name)));
        AttackCount.faults(KILLS, "kills of training, " + unfinished + " of them while a checkpoint was written");
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

    /** Checks all checkpoints in a folder, and returns the number of unfinished files. */
    private static int requireIntact(Path checkpoints) throws IOException {
        int unfinished = 0;
        try (var files = Files.newDirectoryStream(checkpoints, "step-*")) {
            for (Path file : files) {
                if (file.toString().endsWith(".part")) {
                    unfinished++;
                    continue;
                }
                try (Safetensors saved = Safetensors.open(file)) {
                    saved.requireIntact();
                }
            }
        }
        return unfinished;
    }
}
