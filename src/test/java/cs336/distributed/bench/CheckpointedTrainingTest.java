package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.AttackCount;
import cs336.bench.LabCommand;
import cs336.checkpoints.CheckpointFolder;
import cs336.safetensors.Safetensors;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.train.TrainCommand;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

@Timeout(900) // thirty kills under load
class CheckpointedTrainingTest {
    private static final String TINY = "--d-model 8 --layers 1 --heads 2 --vocab 11 --context 4 --device cpu ";

    private static final int STEPS_PER_KILL = 20;

    @TempDir
    Path folder;

    private final StringWriter err = new StringWriter();

    private int run(LabCommand command, List<String> arguments, StringWriter out) {
        return new CommandLine(command)
                .setParameterExceptionHandler((e, args) -> {
                    err.write(e.getMessage());
                    return 2;
                })
                .setOut(new PrintWriter(out))
                .execute(arguments.toArray(String[]::new));
    }

    private String train(LabCommand command, String options, Path checkpoints, String... more) {
        var out = new StringWriter();
        String batch = options.contains("--batch ") ? "" : " --batch 2";
        var all = new ArrayList<>(List.of((TINY + options + batch).split(" +")));
        all.addAll(List.of("--checkpoint", checkpoints.toString()));
        all.addAll(List.of(more));
        assertEquals(0, run(command, all, out), err::toString);
        return out.toString();
    }

    private static Path file(Path checkpoints, int step) {
        return checkpoints.resolve(String.format("step-%09d.safetensors", step));
    }

    private static void assertSameFile(Path a, Path b) throws IOException {
        assertArrayEquals(Files.readAllBytes(a), Files.readAllBytes(b), a + " and " + b);
    }

    @Test
    void aResumedRunEqualsAnUninterruptedOne() throws IOException {
        String options = "--mode bucketed --dtype bf16 --steps 7 --checkpoint-every 4";
        Path whole = folder.resolve("whole");
        Path half = Files.createDirectory(folder.resolve("half"));
        assertEquals(
                "trained from step 0 to 7; checkpoints are in " + whole + "\n",
                train(new DdpCommand(), options, whole));
        Files.copy(file(whole, 4), file(half, 4));
        assertEquals(
                "trained from step 4 to 7; checkpoints are in " + half + "\n",
                train(new DdpCommand(), options, half, "--resume"));
        assertSameFile(file(whole, 7), file(half, 7));
    }

    private static <T> CompletableFuture<T> inBackground(Callable<T> run) {
        return CompletableFuture.supplyAsync(
                () -> {
                    try {
                        return run.call();
                    } catch (Exception e) {
                        throw new CompletionException(e);
                    }
                },
                task -> new Thread(task).start());
    }

    @Test
    void aRunContinuesWithAnotherNumberOfRanksAndInAnotherMode() throws IOException {
        var fsdp = inBackground(() -> {
            continueElsewhere(new FsdpCommand(), "fsdp", new FsdpCommand(), "fsdp-without-prefetch");
            return null;
        });
        continueElsewhere(new ShardCommand(), "all-gather", new ShardCommand(), "broadcast");
        fsdp.join();
    }

    /** Trains on three ranks; then continues on two, and in another mode on one. */
    private void continueElsewhere(LabCommand first, String mode, LabCommand second, String secondMode)
            throws IOException {
        Path three = folder.resolve("three " + mode);
        Path same = folder.resolve("same " + mode);
        train(first, "--mode " + mode + " --bucket-size-mb 0.001 --steps 3 --processes 3", three);
        Files.createDirectory(same);
        Files.copy(file(three, 3), file(same, 3));
        // One rank with batches of 4 sequences takes the same sequences in a step as two ranks with batches of 2.
        var two = inBackground(() -> train(second, "--mode " + secondMode + " --steps 6 --resume", three));
        train(new DdpCommand(), "--mode flat --steps 6 --resume --processes 1 --batch 4", same);
        two.join();
        try (var scope = MemoryScope.open();
                var onTwo = Safetensors.open(file(three, 6));
                var onOne = Safetensors.open(file(same, 6))) {
            assertEquals("30", onTwo.metadata().get("sequences")); // 3 · 3 · 2, then 3 · 2 · 2
            assertEquals("30", onOne.metadata().get("sequences"));
            assertEquals(onOne.entries().keySet(), onTwo.entries().keySet());
            assertTrue(onOne.entries().keySet().stream().anyMatch(name -> name.startsWith("optimizer.")));
            for (String name : onOne.entries().keySet()) {
                Tensor difference = onOne.tensor(name, Device.cpu())
                        .sub(onTwo.tensor(name, Device.cpu()))
                        .abs();
                // Adam's normalized steps amplify differences of rounding where gradients are near 0.
                assertTrue(
                        difference.max().item_double() < 1e-4,
                        name + " differs by " + difference.max().item_double());
            }
            Tensor moved = onOne.tensor("lm_head.weight", Device.cpu());
            try (var before = Safetensors.open(file(three, 3))) {
                assertNotEquals(
                        0,
                        moved.sub(before.tensor("lm_head.weight", Device.cpu()))
                                .abs()
                                .gt(new Scalar(1e-3))
                                .sum()
                                .item_long());
            }
        }
    }

    /** Both read the same sequences in each step, and begin with the same parameters. */
    @Test
    void trainingOnATextEqualsThatOfOneProcess() throws IOException {
        Path text = Files.write(
                folder.resolve("text"),
                new SplittableRandom(3)
                        .ints(500, 97, 105)
                        .mapToObj(Character::toString)
                        .collect(Collectors.joining())
                        .getBytes(StandardCharsets.US_ASCII));
        String options =
                "--d-model 8 --layers 1 --heads 2 --vocab 256 --context 6 --device cpu --lr 3e-3 --steps 25 --text "
                        + text;
        Path alone = folder.resolve("alone");
        assertEquals(
                0, run(new TrainCommand(), words(options + " --batch 4 --checkpoint " + alone), new StringWriter()));
        try (var scope = MemoryScope.open();
                var expected = Safetensors.open(file(alone, 25))) {
            for (String mode : List.of("flat", "zero-1", "fsdp")) {
                Path several = folder.resolve(mode);
                LabCommand command = switch (mode) {
                    case "flat" -> new DdpCommand();
                    case "zero-1" -> new ShardCommand();
                    default -> new FsdpCommand();
                };
                String arguments = options + " --batch 2 --mode " + mode + " --checkpoint " + several;
                assertEquals(0, run(command, words(arguments), new StringWriter()), err::toString);
                try (var found = Safetensors.open(file(several, 25))) {
                    for (String name : expected.entries().keySet()) {
                        Tensor difference = found.tensor(name, Device.cpu()).sub(expected.tensor(name, Device.cpu()));
                        double largest = difference.abs().max().item_double();
                        assertTrue(largest < 1e-4, () -> mode + ": " + name + " differs by " + largest);
                    }
                }
            }
        }
    }

    private static List<String> words(String line) {
        return List.of(line.split(" +"));
    }

    @Test
    void unusableTextsAndLearningRatesAreRejected() throws IOException {
        Path text = Files.write(folder.resolve("short"), new byte[4]);
        for (LabCommand command : List.of(new DdpCommand(), new ShardCommand(), new FsdpCommand())) {
            requireRejected(command, "--text " + text, "--text has no effect without --checkpoint");
            requireRejected(command, "--lr 1", "--lr has no effect without --checkpoint");
            String mode = command instanceof DdpCommand ? "flat" : command instanceof ShardCommand ? "zero-1" : "fsdp";
            String run = "--mode " + mode + " --checkpoint " + folder.resolve("unused");
            requireRejected(command, run + " --lr -1", "--lr must be finite and at least 0, not -1.0");
            requireRejected(command, run + " --text " + text, "--vocab must be at least 256");
            requireRejected(
                    command, run + " --vocab 256 --text " + text, "must have more than --context 4 bytes, not 4");
        }
    }

    @Test
    @Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD) // a pipe without a writer blocks
    void aPipeIsNoTextOfSeveralRanks() throws Exception {
        Path pipe = folder.resolve("pipe");
        assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
        requireFailure(pipe, pipe + " is read several times, so it must be a regular file, not a pipe");
    }

    @Test
    void ranksWithDifferentTextsEndBeforeTheFirstStep() {
        Path environment = Path.of("/proc/self/environ"); // contains the rank
        requireFailure(
                environment, "--text " + environment + " must be the same file on all ranks: rank 0 has a text of ");
    }

    /** Checks that training on a text fails with a message and saves no checkpoint. */
    private void requireFailure(Path text, String message) {
        var printed = new ByteArrayOutputStream();
        PrintStream console = System.err;
        System.setErr(new PrintStream(printed, true, StandardCharsets.UTF_8));
        Path unused = folder.resolve("unused");
        try {
            String arguments =
                    TINY.replace("11", "256") + "--mode flat --steps 1 --checkpoint " + unused + " --text " + text;
            assertEquals(1, run(new DdpCommand(), words(arguments), new StringWriter()));
        } finally {
            System.setErr(console);
        }
        assertTrue(printed.toString(StandardCharsets.UTF_8).contains(message), printed::toString);
        assertTrue(Files.notExists(file(unused, 1)));
    }

    @Test
    void aRunWithLossScalingIsNotResumedOnSeveralRanks() throws IOException {
        Path text = Files.write(folder.resolve("text"), new byte[50]);
        Path scaled = folder.resolve("scaled");
        String options = TINY.replace("11", "256") + "--steps 1 --batch 1 --text " + text + " --checkpoint " + scaled;
        assertEquals(0, run(new TrainCommand(), words(options + " --dtype fp16"), new StringWriter()), err::toString);
        var failure = new ArrayList<Exception>();
        new CommandLine(new FsdpCommand())
                .setExecutionExceptionHandler((e, command, parsed) -> {
                    failure.add(e);
                    return 1;
                })
                .execute(words(options + " --mode fsdp --resume").toArray(String[]::new));
        assertTrue(
                failure.get(0)
                        .getMessage()
                        .contains(file(scaled, 1) + " has the loss scale of a run with --dtype fp16"),
                failure::toString);
    }

    private void requireRejected(LabCommand command, String options, String message) {
        err.getBuffer().setLength(0);
        assertEquals(
                2,
                run(
                        command,
                        words(TINY.replace(options.contains("--vocab") ? "--vocab 11 " : "none", "") + options),
                        new StringWriter()));
        assertTrue(err.toString().contains(message), err::toString);
    }

    @Test
    void aRunWithAShardedOptimizerWhoseRanksAreKilledEqualsAnUninterruptedOne() throws Exception {
        killRanks(ShardCommand::new, "--mode zero-1 --bucket-size-mb 0.001");
    }

    @Test
    void aRunWithShardedParametersWhoseRanksAreKilledEqualsAnUninterruptedOne() throws Exception {
        killRanks(FsdpCommand::new, "--mode fsdp --dtype bf16");
    }

    private void killRanks(Supplier<LabCommand> command, String mode) throws Exception {
        int kills = Integer.getInteger("cs336.rankKills", 1);
        String options = mode + " --checkpoint-every 1 --steps " + STEPS_PER_KILL * (1 + kills);
        Path whole = folder.resolve("whole");
        Path parts = folder.resolve("parts");
        var uninterrupted = inBackground(() -> train(command.get(), options, whole));
        List<ProcessHandle> others = ranks(List.of());
        while (others.size() < 2) {
            assertFalse(uninterrupted.isDone(), "the run ended before its ranks were found");
            TimeUnit.MILLISECONDS.sleep(1);
            others = ranks(List.of());
        }
        var run = inBackground(() -> train(command.get(), options, parts, "--max-restarts", String.valueOf(kills)));
        var random = new SplittableRandom(8);
        for (int kill = 0; kill < kills; kill++) {
            long step = CheckpointFolder.lastStep(parts) + random.nextInt(1, STEPS_PER_KILL / 2);
            while (CheckpointFolder.lastStep(parts) < step) {
                assertFalse(run.isDone(), "the run ended before the kill");
                TimeUnit.MILLISECONDS.sleep(1);
            }
            TimeUnit.MICROSECONDS.sleep(random.nextInt(20_000));
            List<ProcessHandle> ranks = ranks(others);
            assertEquals(2, ranks.size());
            ranks.get(random.nextInt(2)).destroyForcibly();
            while (ranks.stream().anyMatch(ProcessHandle::isAlive)) {
                TimeUnit.MILLISECONDS.sleep(5);
            }
        }
        run.join();
        uninterrupted.join();
        int last = STEPS_PER_KILL * (1 + kills);
        assertSameFile(file(whole, last), file(parts, last));
        try (var damaged = Files.newDirectoryStream(parts, "*.damaged")) {
            assertFalse(damaged.iterator().hasNext());
        }
        AttackCount.faults(kills, "kills of a rank of training");
    }

    /** Returns the ranks that this process has started in addition to others. */
    private static List<ProcessHandle> ranks(List<ProcessHandle> others) {
        return ProcessHandle.current()
                .children()
                .filter(child -> child.info().commandLine().orElse("").endsWith(".RankWorker"))
                .filter(child -> !others.contains(child) && child.isAlive())
                .toList();
    }

    @Test
    void invalidOptionsAreOneLine() throws IOException {
        Path used = folder.resolve("used");
        Files.createDirectories(used);
        Files.createFile(file(used, 30));
        rejected(new DdpCommand(), "--resume", "--resume needs --checkpoint <folder>");
        rejected(new ShardCommand(), "--checkpoint-every 2", "--checkpoint-every needs --checkpoint <folder>");
        rejected(
                new DdpCommand(),
                "--checkpoint c --mode naive,flat",
                "with --checkpoint the options must select one model and one --mode, not 2");
        rejected(
                new ShardCommand(),
                "--checkpoint c",
                "with --checkpoint the options must select one model and one --mode, not 5");
        rejected(
                new DdpCommand(),
                "--checkpoint c --mode none",
                "--mode none cannot be used with --checkpoint: its ranks do not train the same model");
        rejected(
                new ShardCommand(),
                "--checkpoint c --mode unsynchronized",
                "--mode unsynchronized cannot be used with --checkpoint: its ranks do not train the same model");
        rejected(new DdpCommand(), "--checkpoint c --rounds 3", "--rounds has no effect with --checkpoint");
        rejected(new DdpCommand(), "--checkpoint c --trace t", "--trace has no effect with --checkpoint");
        rejected(new DdpCommand(), "--checkpoint c --model toy", "--checkpoint needs --model transformer, not toy");
        rejected(
                new FsdpCommand(),
                "--checkpoint c",
                "with --checkpoint the options must select one model and one --mode, not 4");
        rejected(new FsdpCommand(), "--resume", "--resume needs --checkpoint <folder>");
        rejected(new FsdpCommand(), "--checkpoint c --warmup 2", "--warmup has no effect with --checkpoint");
        rejected(new ShardCommand(), "--max-restarts -1", "--max-restarts must be at least 0, not -1");
        rejected(
                new ShardCommand(),
                "--mode zero-1 --checkpoint " + used,
                "--checkpoint " + used
                        + " has a checkpoint of step 30: add --resume to continue from it, or select another folder");
    }

    private void rejected(LabCommand command, String arguments, String message) {
        err.getBuffer().setLength(0);
        assertEquals(2, run(command, List.of(arguments.split(" ")), new StringWriter()));
        assertEquals(message, err.toString().strip());
        assertFalse(Files.exists(Path.of("c")) || Files.exists(Path.of("t")), "nothing is left of a refused command");
    }
}
