package cs336;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.TestJvm;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine.Command;

class MainTest {
    @TempDir
    Path folder;

    private final StringWriter out = new StringWriter(), err = new StringWriter();

    private int run(String... arguments) {
        return Main.commandLine(arguments)
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err))
                .execute(arguments);
    }

    @Test
    void anUnknownCommandIsReportedWithTheKnownOnes() {
        assertEquals(2, run("infer"));
        String known = String.join(", ", Main.commandLine().getSubcommands().keySet());
        assertEquals("cs336: command 'infer' is unknown; known: " + known + "\n", err.toString());
    }

    @Test
    void anUnknownOptionIsReported() {
        assertEquals(2, run("benchmark", "--contxt", "8"));
        assertEquals("cs336: Unknown options: '--contxt', '8'\n", err.toString());
    }

    @Test
    void aCommandIsRequired() {
        assertEquals(2, run());
        assertEquals("cs336: a command is missing; see ./cs336 --help\n", err.toString());
    }

    @Test
    void examplesInTheHelpCanBeCopied() {
        int examples = 0;
        for (var command : Main.commandLine().getSubcommands().entrySet()) {
            out.getBuffer().setLength(0);
            assertEquals(0, run(command.getKey(), "--help"));
            String help = out.toString().replaceAll(" \\\\\n +", " ");
            Object object = command.getValue().getCommand();
            for (String line : object.getClass().getAnnotation(Command.class).footer()) {
                if (line.startsWith("    ./cs336 ")) {
                    assertTrue(help.contains(line + "\n"), line + "\nis not in\n" + out);
                    String[] arguments = line.strip().split(" ");
                    String[] options = Arrays.copyOfRange(arguments, 1, arguments.length);
                    assertDoesNotThrow(() -> Main.commandLine(options).parseArgs(options), line);
                    examples++;
                }
            }
        }
        assertTrue(examples > 50, examples + " examples");
    }

    @Test
    void aMissingNotebookIsReportedWithTheExistingOnes() {
        assertEquals(2, run("notebooks", "99-nothing"));
        assertTrue(
                err.toString().startsWith("cs336: notebook '99-nothing' is unknown; known: 00-start-here"),
                err.toString());
    }

    @Test
    void aFileThatIsNotANotebookIsReportedInOneLine() throws IOException {
        Path file = Files.writeString(folder.resolve("no.ipynb"), "not json");
        assertEquals(
                1,
                run(
                        "notebooks",
                        file.toString(),
                        "--output",
                        folder.resolve("out").toString()));
        assertEquals("cs336: " + file + " is not a notebook: it is not JSON\n", err.toString());
    }

    @Test
    void aMissingFileAndAFolderThatCannotBeCreatedAreReportedInOneLine() throws IOException {
        Path none = folder.resolve("none.json");
        assertEquals(1, run("isoflops", "--runs", none.toString()));
        assertEquals("cs336: there is no file or folder " + none + "\n", err.toString());
        err.getBuffer().setLength(0);
        Path file = Files.writeString(folder.resolve("file"), "");
        String trace = "data/measurements/h200-x4/ddp/naive-rank0.json.gz";
        assertEquals(1, run("overlap", trace, "--figure", file.toString()));
        assertEquals(1, err.toString().lines().count(), err.toString());
        assertTrue(err.toString().contains(": not a folder: " + file), err.toString());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "profile --d-model 16 --layers 1 --heads 2 --context 8 --device cpu --folder",
                "memory --d-model 16 --layers 1 --heads 2 --context 8 --device cpu --folder",
                "attention --context 8 --d 8 --steps 1 --device cpu --output",
                "flash --context 8 --d 8 --device cpu --output",
                "leaderboard --context 8 --d 8 --device cpu --output",
                "norms --rows 3 --hidden 8 --passes 20 --device cpu --output",
                "precision --device cpu --output",
                "kernels --output",
                "accounting --answers --output",
                "isoflops --resamples 100 --store here --output",
                "isoflops --generate",
                "overlap data/measurements/h200-x4/ddp/naive-rank0.json.gz --figure",
                "ddp --device cpu --trace",
                "fsdp --device cpu --trace",
                "ddp --device cpu --output",
                "allreduce --device cpu --output",
                "writeup --output",
                "site --output",
            })
    void aPathThatCannotBeWrittenIsReportedBeforeTheWork(String command) throws IOException {
        Path file = Files.writeString(folder.resolve("file"), "where a folder should be");
        String option = command.substring(command.lastIndexOf(' ') + 1);
        String[] arguments = (command + " " + file.resolve("x")).split(" ");
        PrintStream console = System.err;
        var progress = new ByteArrayOutputStream();
        System.setErr(new PrintStream(progress, true, StandardCharsets.UTF_8));
        try {
            assertEquals(1, run(arguments));
            assertEquals(1, err.toString().lines().count(), err.toString());
            String expected = "cs336: " + option + " " + file.resolve("x") + " cannot be written: ";
            assertTrue(err.toString().startsWith(expected), err.toString());
            assertEquals("", out + progress.toString(StandardCharsets.UTF_8));
            arguments[arguments.length - 1] = "";
            err.getBuffer().setLength(0);
            assertEquals(2, run(arguments));
            assertEquals("cs336: " + option + " must not be empty\n", err.toString());
        } finally {
            System.setErr(console);
        }
    }

    @Test
    void aFolderThatTakesNoFilesIsNamed() {
        assertEquals(1, run("isoflops", "--generate", "/proc/runs.json"));
        assertEquals(
                "cs336: --generate /proc/runs.json cannot be written: no file can be created in /proc\n",
                err.toString());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "profile --draw-only --no-pictures | --draw-only and --no-pictures exclude each other",
                "benchmark --batch 2147483647 | --batch 2147483647 × --context 256 must be at most 2147483647 tokens",
                "benchmark --context 2147483647 --batch 1 | --context 2147483647 is too long for the rotary position"
                        + " embedding of heads of width 64",
                "memory --context 1,2147483647 | --batch 4 × --context 2147483647 must be at most 2147483647 tokens",
                "train --text README.md --batch 65536 --context 32768 | --batch 65536 × --context 32768 must be at most"
                        + " 2147483647 tokens",
                "benchmark --year 2024 --d-model 2147483646 --d-ff 2147483647 --layers 2147483647 --heads 1 --device cpu | dModel"
                        + " 2147483646, dFf 2147483647 and numLayers 2147483647 give more than 2^63 - 1 parameters",
                "benchmark --d-model 15 --heads 3 | --heads 3 must give heads of even width, not 5, because of the rotary"
                        + " position embedding",
                "benchmark --machine a/b --device cpu | --machine must be letters, digits, '.', '_' and '-', not 'a/b'",
                "flash --context 2147483647 --d 2147483647 | 1 sequences or heads with --context 2147483647 and --d"
                        + " 2147483647 are too large",
                "attention --batch 2147483647 --context 2147483647 | 2147483647 sequences or heads with --context"
                        + " 2147483647 and --d 16 are too large",
                "plan --context , | --context must be a list of values separated by commas, not ','",
                "plan --layers 2147483647 | --layers must be at most 10000, because the tensors of each block are counted,"
                        + " not 2147483647",
                "benchmark --context 8, | --context must be a list of values separated by commas, not '8,'",
                "benchmark --size ,small | --size must be a list of values separated by commas, not ',small'",
                "ddp --attention , --device cpu | --attention must be a list of values separated by commas, not ','",
                "allreduce --processes ,, --device cpu | --processes must be a list of values separated by commas, not"
                        + " ',,'",
                "benchmark --size a'b\"c | size 'a'b\"c' is unknown; known: small, medium, large, xl, 2.7B. --d-model, --d-ff, --layers, --heads and --vocab set other sizes",
                "plan --size @/ | size '@/' is unknown; known: small, medium, large, xl, 2.7B. --d-model, --d-ff, --layers, --heads and --vocab set other sizes",
                "accounting --output= | --output must not be empty",
                "isoflops --output= | --output must not be empty",
                "accounting --output x | --output has no effect without --answers or --simulate",
                "launch --processes 1 --threads 0 Hello | --threads must be at least 1, not 0",
                "launch --processes 1 --threads 1025 Hello | --threads must be at most 1024, not 1025",
                "launch --processes 1 --device tpu Hello | --device 'tpu' is unknown; known: cpu, cuda",
                "isoflops --output x | --output has no effect without --store",
                "isoflops --generate x.json --output x | --output has no effect with --generate",
                "accounting --answers --shards 3 | --shards has no effect with --answers",
                "fsdp --predict h200-x2 --size xl | --size has no effect with --predict",
                "ddp --predict-buckets h200-x4 --steps 0 | --steps has no effect with --predict-buckets",
                "leaderboard --round 0 | --round must be at least 1, not 0",
                "kernels --hidden 0 | --hidden must be at least 1, not 0",
            })
    void wrongUseIsReportedInOneLine(String command, String message) {
        assertEquals(2, run(command.split(" ")));
        assertEquals("cs336: " + message + "\n", err.toString());
    }

    @Test
    void drawingNeedsAProfile() {
        Path none = folder.resolve("none");
        assertEquals(2, run("profile", "--draw-only", "--folder", none.toString()));
        assertEquals(
                "cs336: --draw-only: there is no profile of these cases in --folder " + none + "\n", err.toString());
    }

    @Test
    void anImpossibleFileNameIsReportedInOneLine() {
        assertEquals(2, run("train", "--text", "a\0b"));
        assertEquals(
                "cs336: Invalid value for option '--text': 'a\0b' is not a file name: Nul character not allowed\n",
                err.toString());
    }

    /** The JVM replaces bytes that its encoding does not have by U+FFFD. */
    @Test
    @EnabledIf("hasUnicodeFileNames")
    void aFileNameInAnotherEncodingIsReported() throws IOException {
        Path file = folder.resolve("a\uFFFDb");
        assertEquals(2, run("train", "--text", file.toString()));
        assertEquals(
                "cs336: Invalid value for option '--text': '" + file + "' is not a file name: it has bytes that are not"
                        + " in the JVM's encoding " + System.getProperty("sun.jnu.encoding") + "; rename the file\n",
                err.toString());
        Files.createFile(file); // a name with this character
        assertEquals(2, run("train", "--text", file.toString(), "--device", "cpu", "--steps", "0"));
        assertEquals(
                "--steps must be at least 1, not 0",
                err.toString().lines().toList().get(1).substring("cs336: ".length()));
    }

    static boolean hasUnicodeFileNames() {
        return Charset.forName(System.getProperty("sun.jnu.encoding"))
                .newEncoder()
                .canEncode('\uFFFD');
    }

    /** 2(n − 1), the steps of a ring, exceeds 2³¹ here. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "accounting --data 2147483647",
                "accounting --shards 2147483647",
                "plan --processes 2147483647 --d-model 16 --layers 1 --heads 2 --context 8"
            })
    void theLargestNumberOfDevicesIsCalculated(String command) {
        assertEquals(0, run(command.split(" ")), err.toString());
        assertEquals("", err.toString());
    }

    @ParameterizedTest
    @CsvSource({
        "accounting --simulate ..,  --simulate",
        "fsdp --predict ..,         --predict",
        "ddp --predict-buckets ..,  --predict-buckets",
    })
    void aMachineMustBeTheNameOfAFolder(String command, String option) {
        assertEquals(2, run(command.split(" ")));
        assertEquals("cs336: " + option + " must be letters, digits, '.', '_' and '-', not '..'", firstError());
    }

    @Test
    void inputsThatCannotBeAnyAreRefused() {
        for (String input : new String[] {"README.md", ""}) {
            err.getBuffer().setLength(0);
            assertEquals(2, run("measurements", "--input", input));
            assertEquals("cs336: --input must be a folder, not '" + input + "'", firstError());
        }
        err.getBuffer().setLength(0);
        assertEquals(1, run("overlap", ""));
        assertEquals("cs336: the name of a file must not be empty", firstError());
        err.getBuffer().setLength(0);
        assertEquals(2, run("overlap", "data/measurements/h200-x4/ddp/naive-rank0.json.gz", "--levels", "3"));
        assertEquals("cs336: --levels has no effect without --figure", firstError());
    }

    private String firstError() {
        return err.toString().lines().findFirst().orElse("");
    }

    @Test
    void aTextFileThatIsNotUtf8OrIsAFolderIsNamed() throws IOException {
        Path binary = Files.write(folder.resolve("binary"), new byte[] {'a', '\n', 'b', '\n', -1});
        assertEquals(1, run("isoflops", "--runs", binary.toString()));
        assertEquals("cs336: " + binary + ", line 3: the text is not UTF-8\n", err.toString());
        for (String command : new String[] {"isoflops --runs", "overlap", "train --device cpu --text"}) {
            for (Path any : List.of(folder, folder.getRoot())) {
                err.getBuffer().setLength(0);
                assertEquals(1, run((command + " " + any).split(" ")));
                assertEquals("cs336: " + any + " is a folder, not a file\n", err.toString());
            }
        }
    }

    /** Runs a command in a new JVM, checks that its exit code is 1, and returns what it printed on standard error. */
    private String errorsInNewJvm(Path output, List<String> flags, String... arguments)
            throws IOException, InterruptedException {
        Path errors = folder.resolve("errors");
        var builder = TestJvm.of(Main.class, arguments)
                .redirectOutput(output.toFile())
                .redirectError(errors.toFile());
        builder.command().addAll(1, flags);
        assertEquals(1, builder.start().waitFor());
        String reported = Files.readString(errors);
        assertFalse(reported.contains("\tat "), reported);
        return reported;
    }

    @Test
    void outputThatCannotBeWrittenIsAnError() throws IOException, InterruptedException {
        String reported = errorsInNewJvm(Path.of("/dev/full"), List.of(), "accounting");
        assertTrue(reported.endsWith("cs336: the standard output could not be written\n"), reported);
    }

    @Test
    void aMissingNativeLibraryIsReportedInOneLine() throws IOException, InterruptedException {
        List<String> flags = List.of("-Djna.boot.library.path=" + folder, "-Djna.nosys=true", "-Djna.noclasspath=true");
        String reported =
                errorsInNewJvm(folder.resolve("output"), flags, "allreduce", "--device=cpu", "--output=" + folder);
        assertTrue(reported.contains("cs336: a native library cannot be loaded: Unable to locate JNA"), reported);
    }

    @Test
    void runningOutOfMemoryIsReportedInOneLine() {
        String hugeLogits =
                "train --text README.md --device cpu --layers 1 --heads 1 --d-model 2 --d-ff 8 --vocab 1000000"
                        + " --batch 8192 --context 64"; // 2 TB
        assertEquals(1, run(hugeLogits.split(" ")));
        assertEquals(1, err.toString().lines().count(), err.toString());
        assertTrue(err.toString().startsWith("cs336: out of memory: "), err.toString());
    }

    @Test
    void nothingIsMeasuredIfMeasurementsCannotBeStored() throws IOException {
        Path file = Files.writeString(folder.resolve("file"), "where a folder should be");
        String tiny = "benchmark --d-model 16 --layers 1 --heads 2 --context 8 --device cpu --machine here --output ";
        PrintStream console = System.err;
        var progress = new ByteArrayOutputStream();
        System.setErr(new PrintStream(progress, true, StandardCharsets.UTF_8));
        try {
            assertEquals(1, run((tiny + file).split(" ")));
        } finally {
            System.setErr(console);
        }
        assertEquals(1, err.toString().lines().count(), err.toString());
        assertTrue(err.toString().contains(": not a folder: " + file), err.toString());
        assertFalse(progress.toString(StandardCharsets.UTF_8).contains("[1/"), "a case was measured");
    }
}
