package cs336.train;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.safetensors.Safetensors;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import cs336.units.PretendedLoad;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.RandomAccessFile;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

class TrainCommandTest {
    private static final String SENTENCE = "the quick brown fox jumps over the lazy dog. ";

    @TempDir
    Path folder;

    private final StringWriter out = new StringWriter();
    private String error;

    private int run(String... more) throws IOException {
        Path text = folder.resolve("text.txt");
        Files.writeString(text, SENTENCE.repeat(20));
        var arguments = new ArrayList<String>();
        if (!List.of(more).contains("--batch")) {
            arguments.addAll(List.of("--batch", "2"));
        }
        if (!List.of(more).contains("--text")) {
            arguments.addAll(List.of("--text", text.toString()));
        }
        if (!List.of(more).contains("--device")) {
            arguments.addAll(List.of("--device", "cpu"));
        }
        arguments.addAll(
                List.of("--d-model", "16", "--layers", "1", "--heads", "2", "--vocab", "256", "--context", "8"));
        arguments.addAll(List.of(more));
        return new CommandLine(new TrainCommand())
                .setOut(new PrintWriter(out))
                .setParameterExceptionHandler((e, a) -> {
                    error = e.getMessage();
                    return 2;
                })
                .execute(arguments.toArray(String[]::new));
    }

    private List<Double> losses() {
        Matcher loss = Pattern.compile("loss (\\S+)").matcher(out.toString());
        var losses = new ArrayList<Double>();
        while (loss.find()) {
            losses.add(Double.parseDouble(loss.group(1)));
        }
        return losses;
    }

    @Test
    void theLossOfARepeatedSentenceFalls() throws IOException {
        try (var host = PretendedLoad.busy()) {
            assertEquals(0, run("--steps", "120", "--lr", "1e-2", "--log-every", "20"));
            assertEquals(1, host.warnings().size(), "one warning about the busy host");
        }
        List<Double> losses = losses();
        assertEquals(6, losses.size());
        assertTrue(losses.get(0) > 3 && losses.get(5) < 2, losses.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"fp32", "bf16", "fp16"})
    void aResumedRunEqualsAnUninterruptedOneBitForBit(String dtype) throws IOException {
        Path whole = folder.resolve("whole");
        Path halves = folder.resolve("halves");
        String[] all = {"--steps", "12", "--warmup", "3", "--dtype", dtype, "--checkpoint"};
        assertEquals(0, run(and(all, whole.toString())));
        String[] half = {"--steps", "6", "--decay-steps", "12", "--warmup", "3", "--dtype", dtype, "--checkpoint"};
        assertEquals(0, run(and(half, halves.toString())));
        assertEquals(0, run(and(all, halves.toString(), "--resume", "--checkpoint-every", "4")));
        assertEquals(List.of(8, 12), steps(halves), "steps of the last two checkpoints");
        assertArrayEquals(Files.readAllBytes(file(whole, 12)), Files.readAllBytes(file(halves, 12)));
        assertEquals(0, run(and(all, halves.toString(), "--resume")));
        assertTrue(
                out.toString()
                        .endsWith(halves + ": no steps left: the last checkpoint is of step 12, and --steps is 12\n"),
                out.toString());
    }

    @Test
    void theOrderOfWeightDecayIsNamedLikeOtherOptions() throws IOException {
        for (String order : List.of("decay-after", "decay-before", "torch")) {
            assertEquals(0, run("--steps", "1", "--order", order), error);
        }
        assertEquals(2, run("--steps", "1", "--order", "decay"));
        assertEquals("order 'decay' is unknown; known: decay-after, decay-before, torch", error);
    }

    @Test
    void aRunWithoutStepsLeftDoesNotSayThatItContinues() throws IOException {
        String[] checkpoint = {"--checkpoint", folder.resolve("ended").toString()};
        String errors =
                errorsOf(and(checkpoint, "--steps", "4"), and(checkpoint, "--steps", "3", "--lr", "0.5", "--resume"));
        assertEquals("", errors);
        assertTrue(out.toString().endsWith("no steps left: the last checkpoint is of step 4, and --steps is 3\n"));
    }

    private String errorsOf(String[]... runs) throws IOException {
        PrintStream before = System.err;
        var printed = new ByteArrayOutputStream();
        try (var stream = new PrintStream(printed, true, StandardCharsets.UTF_8)) {
            System.setErr(stream);
            for (String[] each : runs) {
                assertEquals(0, run(each), error);
            }
        } finally {
            System.setErr(before);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }

    @Test
    void aResumedRunHasTheOptionsOfItsCommandLineAndNamesThoseThatDiffer() throws IOException {
        Path checkpoints = folder.resolve("options");
        String[] all = {"--checkpoint", checkpoints.toString(), "--warmup", "1", "--decay-steps", "9", "--steps"};
        assertEquals(0, run(and(all, "4")));
        assertEquals(
                "cs336: " + file(checkpoints, 4)
                        + " was trained with --lr 0.001, --clip 1.0, 2 sequences per step; this"
                        + " run continues with --lr 0.5, --clip 3.0, 3 sequences per step\n",
                errorsOf(and(all, "5", "--lr", "0.5", "--clip", "3", "--batch", "3", "--resume")));
        assertTrue(out.toString().contains("learning rate 3.61e-01"), out.toString());
    }

    @Test
    void otherDataOfAResumedRunIsNamed() throws IOException {
        String[] all = {"--checkpoint", folder.resolve("seeds").toString(), "--decay-steps", "11", "--steps"};
        assertEquals(0, run(and(all, "1")));
        String printed = errorsOf(and(all, "2", "--resume"), and(all, "3", "--seed", "5", "--resume"));
        Pattern warning =
                Pattern.compile("(\\S+) was trained on (a text of 900 bytes with CRC-32C [0-9a-f]+), seed 0; this"
                        + " run continues on (.+), seed 5");
        Matcher found = warning.matcher(printed);
        assertTrue(found.find(), printed);
        assertEquals(
                folder.resolve("seeds").resolve("step-000000002.safetensors").toString(), found.group(1));
        assertEquals(found.group(2), found.group(3));
        assertFalse(found.find());
    }

    @Test
    void aResumedRunContinuesWithTheScaleThatItHad() throws IOException {
        Path scaled = folder.resolve("scaled");
        String[] fp16 = {"--dtype", "fp16", "--checkpoint", scaled.toString(), "--steps"};
        assertEquals(0, run(and(fp16, "2")));
        double scale = scale(file(scaled, 2));
        assertEquals(0, run(and(fp16, "3", "--resume")));
        assertEquals(scale, scale(file(scaled, 3)));
        assertEquals(2, trackedSteps(file(scaled, 2)), "steps without an overflow");
        assertEquals(3, trackedSteps(file(scaled, 3)), "steps without an overflow");
    }

    @Test
    void aRunWithLossScalingIsNotResumedWithoutIt() throws IOException {
        for (String[] dtypes : new String[][] {{"fp16", "fp32"}, {"bf16", "fp16"}}) {
            Path checkpoints = folder.resolve(dtypes[0]);
            String[] all = {"--checkpoint", checkpoints.toString(), "--steps"};
            assertEquals(0, run(and(all, "1", "--dtype", dtypes[0])));
            assertEquals(2, run(and(all, "2", "--dtype", dtypes[1], "--resume")));
            assertEquals(
                    file(checkpoints, 1)
                            + (dtypes[0].equals("fp16")
                                    ? " has the loss scale of a run with --dtype fp16, which --dtype fp32 does not use"
                                    : " has no loss scale, which --dtype fp16 needs"),
                    error);
        }
    }

    @Test
    @Tag("gpu")
    void aRunOnAGpuResumesThereAndOnTheCpu() throws IOException {
        Path checkpoints = folder.resolve("gpu");
        String[] gpu = {"--dtype", "fp16", "--checkpoint", checkpoints.toString(), "--device", "cuda", "--steps"};
        assertEquals(0, run(and(gpu, "6")));
        double scale = scale(file(checkpoints, 6));
        assertEquals(0, run(and(gpu, "12", "--resume")));
        assertEquals(scale, scale(file(checkpoints, 12)));
        assertEquals(trackedSteps(file(checkpoints, 6)) + 6, trackedSteps(file(checkpoints, 12)));
        String[] cpu = {"--dtype", "fp16", "--checkpoint", checkpoints.toString(), "--steps", "13", "--resume"};
        assertEquals(0, run(cpu));
        List<Double> losses = losses();
        assertTrue(losses.stream().allMatch(Double::isFinite), losses.toString());
    }

    private static double scale(Path checkpoint) throws IOException {
        try (var saved = Safetensors.open(checkpoint);
                var scope = MemoryScope.open()) {
            return saved.tensor("scaler.scale", Device.cpu()).item_double();
        }
    }

    private static long trackedSteps(Path checkpoint) throws IOException {
        try (var saved = Safetensors.open(checkpoint);
                var scope = MemoryScope.open()) {
            return saved.tensor("scaler.growth_tracker", Device.cpu()).item_long();
        }
    }

    @Test
    void aDamagedCheckpointIsReportedAndThePreviousOneIsUsed() throws IOException {
        Path checkpoints = folder.resolve("checkpoints");
        String[] all = {"--steps", "12", "--checkpoint-every", "4", "--checkpoint", checkpoints.toString()};
        assertEquals(0, run(all));
        byte[] last = Files.readAllBytes(file(checkpoints, 12));
        byte[] damaged = last.clone();
        damaged[damaged.length - 9] ^= 4;
        Files.write(file(checkpoints, 12), damaged);
        PrintStream err = System.err;
        var printed = new ByteArrayOutputStream();
        System.setErr(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            assertEquals(0, run(and(all, "--resume")));
        } finally {
            System.setErr(err);
        }
        assertTrue(
                printed.toString(StandardCharsets.UTF_8)
                        .matches("cs336: .*step-000000012.safetensors is damaged: its checksum is \\w{8}, not \\w{8};"
                                + " the last complete checkpoint is .*step-000000008.safetensors\n"),
                printed.toString(StandardCharsets.UTF_8));
        assertArrayEquals(last, Files.readAllBytes(file(checkpoints, 12)));
        assertArrayEquals(damaged, Files.readAllBytes(checkpoints.resolve("step-000000012.safetensors.damaged")));
    }

    /** Replaces a text entry or a 0-dimensional tensor of a checkpoint, whose checksum stays right. */
    private static void forge(Path file, String name, String value) throws IOException {
        try (var saved = Safetensors.open(file);
                var scope = MemoryScope.open()) {
            Map<String, String> metadata = new LinkedHashMap<>(saved.metadata());
            Map<String, Tensor> tensors = new LinkedHashMap<>();
            for (String each : saved.entries().keySet()) {
                tensors.put(each, saved.tensor(each, Device.cpu()));
            }
            if (tensors.containsKey(name)) {
                tensors.get(name).fill_(new Scalar(Double.parseDouble(value)));
            } else {
                metadata.put(name, value);
            }
            Safetensors.write(file, tensors, metadata);
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "step | 13 | ` has 13 in its metadata entry 'step', which must be the number in its name and at most"
                        + " 2147483647`",
                "sequences | 999999999999999999 | ` has 999999999999999999 in its metadata entry 'sequences', which must"
                        + " be from 12 to 1024 times the 24 sequences of 12 steps`",
                "sequences | 11 | ` has 11 in its metadata entry 'sequences', which must be from 12 to 1024 times the 24"
                        + " sequences of 12 steps`",
                "sequences | -5 | ` has no number of trained sequences in its metadata entry 'sequences'`",
                "random.0 | zeros | ` has a metadata entry 'random.0' that is not a state of a random generator`",
                "random.0 | * | ` has a metadata entry 'random.0' that is not Base64`",
                "scaler.scale | 0 | `: scaler.scale must be finite and above 0, not 0.0`",
                "scaler.scale | NaN | `: scaler.scale must be finite and above 0, not NaN`",
                "scaler.growth_tracker | 2147483647 | `: scaler.growth_tracker must be from 0 to 1999, not 2147483647`",
                "optimizer.lm_head.weight.step | 1e18 | `: state lm_head.weight.step must be a single int64 from 1 to"
                        + " 2^53`"
            })
    @Timeout(value = 30, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void forgedProgressIsRejected(String name, String value, String message) throws IOException {
        Path checkpoints = folder.resolve("forged");
        String[] all = {"--dtype", "fp16", "--checkpoint", checkpoints.toString(), "--steps"};
        assertEquals(0, run(and(all, "12")));
        Path last = file(checkpoints, 12);
        String zeros = Base64.getEncoder().encodeToString(new byte[Torch.randomState(Device.cpu()).length]);
        forge(last, name, value.equals("zeros") ? zeros : value);
        assertEquals(2, run(and(all, "13", "--resume")));
        assertEquals(last + message, error);
    }

    @Test
    @Timeout(value = 30, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void aForgedStepInNameAndEntryIsRejected() throws IOException {
        Path checkpoints = folder.resolve("forged");
        String[] all = {"--checkpoint", checkpoints.toString(), "--steps", "2"};
        assertEquals(0, run(all));
        Path forged = checkpoints.resolve("step-100000000000000000.safetensors");
        Files.move(file(checkpoints, 2), forged);
        forge(forged, "step", "100000000000000000");
        forge(forged, "sequences", "200000000000000000");
        assertEquals(2, run(and(all, "--resume")));
        assertEquals(
                forged + " has 100000000000000000 in its metadata entry 'step', which must be the number in its name"
                        + " and at most 2147483647",
                error);
    }

    private static String[] and(String[] arguments, String... more) {
        return Stream.concat(Arrays.stream(arguments), Arrays.stream(more)).toArray(String[]::new);
    }

    private static Path file(Path checkpoints, int step) {
        return checkpoints.resolve(String.format("step-%09d.safetensors", step));
    }

    private static List<Integer> steps(Path checkpoints) throws IOException {
        try (var files = Files.list(checkpoints)) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> name.startsWith("step-"))
                    .map(name -> Integer.parseInt(name.replaceAll("\\D", "")))
                    .sorted()
                    .toList();
        }
    }

    @Test
    void wrongUseIsOneLine() throws IOException {
        assertEquals(2, run("--steps", "0"));
        assertEquals("--steps must be at least 1, not 0", error);
        assertEquals(2, run("--vocab", "100"));
        assertEquals(2, run("--clip", "0"));
        assertEquals("--clip must be positive, not 0.0", error);
        assertEquals(2, run("--lr", "-1"));
        assertEquals("--lr must be finite and at least 0, not -1.0", error);
        assertEquals(2, run("--d-ff", "2147483647"));
        assertTrue(error.startsWith("too little memory: the model d16-ff2147483647-"), error);
        assertEquals(2, run("--decay-steps", "0"));
        assertEquals("--decay-steps must be at least 1, not 0", error);
        assertEquals(2, run("--warmup", "2147483647"));
        assertEquals("--warmup must be below 2147483647", error);
        assertEquals(2, run("--warmup", "5", "--decay-steps", "5"));
        assertEquals("--decay-steps must be above --warmup 5, not 5", error);
        assertEquals(2, run("--lr", "1e30"));
        assertTrue(error.startsWith("--lr 1.0E30 is too large: "), error);
        Path text = Files.createFile(folder.resolve("empty.txt"));
        assertEquals(2, run("--text", text.toString()));
        assertEquals("--text " + text + " must have more than --context 8 bytes, not 0", error);
        assertEquals(2, run("--text", ""));
        assertEquals("--text must not be empty", error);
        try (var file = new RandomAccessFile(text.toFile(), "rw")) {
            file.setLength(3L << 30); // a hole, which occupies no space
        }
        assertEquals(2, run("--text", text.toString()));
        assertEquals(
                "--text " + text + " must have at most 2,147,483,639 bytes, not 3,221,225,472; take its beginning, for"
                        + " example with head -c 1G",
                error);
        assertEquals(2, run("--resume"));
        assertEquals("--resume needs --checkpoint <folder>", error);
        assertEquals(2, run("--checkpoint-every", "3"));
        assertEquals("--checkpoint-every needs --checkpoint <folder>", error);
        assertEquals(2, run("--checkpoint", "", "--resume"));
        assertEquals("--checkpoint must not be empty", error);
        Path used = Files.createDirectory(folder.resolve("used"));
        Files.createFile(file(used, 30));
        assertEquals(2, run("--checkpoint", used.toString()));
        assertEquals(
                "--checkpoint " + used
                        + " has a checkpoint of step 30: add --resume to continue from it, or select another folder",
                error);
        assertEquals(2, run("--size", "small,large"));
        assertEquals("--size, --context, --normalization and --attention must select one model, not 2", error);
    }
}
