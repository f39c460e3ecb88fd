package cs336.train;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.checkpoints.CheckpointFolder;
import cs336.torch.Safetensors;
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
    private static final int LONGEST_WAIT_US = 100_000;
    private static final long SEED = 11;

    @TempDir
    Path folder;

    /** The command {@code train} in a process of its own. */
    public static final class Training {
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
        var command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                Training.class.getName()));
        command.addAll(List.of(arguments(checkpoints)));
        var builder = new ProcessBuilder(command)
                .redirectError(folder.resolve("errors.txt").toFile());
        builder.environment().put("CLASSPATH", System.getProperty("java.class.path"));
        return builder.start();
    }

    @Test
    void theLastCheckpointEqualsThatOfAnUninterruptedRun() throws Exception {
        Path whole = folder.resolve("whole");
        Path parts = folder.resolve("parts");
        Process uninterrupted = start(whole);
        uninterrupted.getInputStream().transferTo(OutputStream.nullOutputStream());
        assertEquals(0, uninterrupted.waitFor());
        var random = new SplittableRandom(SEED);
        int unfinished = 0;
        for (int kill = 1; kill <= KILLS; kill++) {
            long before = CheckpointFolder.lastStep(parts);
            Process training = start(parts);
            try (var lines = training.inputReader()) {
                String first = lines.readLine();
                Matcher step = Pattern.compile("step +(\\d+) .*").matcher(String.valueOf(first));
                assertTrue(step.matches(), first);
                assertEquals(Math.max(0, before) + 1, Integer.parseInt(step.group(1)), "first step after a kill");
                TimeUnit.MICROSECONDS.sleep(random.nextInt(LONGEST_WAIT_US));
                training.destroyForcibly().waitFor();
            }
            unfinished += requireIntact(parts);
        }
        Process last = start(parts);
        last.getInputStream().transferTo(OutputStream.nullOutputStream());
        assertEquals(0, last.waitFor());
        String name = String.format("step-%09d.safetensors", STEPS_PER_KILL * (KILLS + 1));
        assertArrayEquals(Files.readAllBytes(whole.resolve(name)), Files.readAllBytes(parts.resolve(name)));
        System.out.printf(
                "%d kills, %d of them while a checkpoint was written; no checkpoint is damaged%n", KILLS, unfinished);
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
