package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.Device;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.Table;

class BenchmarkCommandTest extends CommandTest {
    private static final String TINY =
            "--d-model 16 --layers 1 --heads 2 --vocab 20 --batch 2 --context 8 --steps 2 --device cpu --machine here ";

    private int run(String arguments) {
        return run(new BenchmarkCommand(), arguments);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--size huge | size 'huge' is unknown; known: small, medium, large, xl, 2.7B. --d-model, --d-ff, --layers, --heads and --vocab set other sizes",
                "--year 2023 | year 2023 has no model; known: 2024, 2025",
                "--context 128,0 | --context must be at least 1, not 0",
                "--batch -4 | --batch must be at least 1, not -4",
                "--steps 0 | --steps must be at least 1, not 0",
                "--warmup -1 | --warmup must be at least 0, not -1",
                "--heads 7 | --heads 7 does not divide --d-model 768",
                "--d-model 0 | --d-model must be at least 1, not 0",
                "--pass backward | pass 'backward' is unknown; known: forward, forward-graph, forward-backward, step",
                "--dtype fp8 | dtype 'fp8' is unknown; known: fp32, tf32, bf16, fp16",
                "--time-limit 0 | --time-limit must be at least 1, not 0",
                "--time-limit 3000000000 | --time-limit must be at most 2147483647, not 3000000000",
                "--d-model 600000000 --heads 1 | --d-ff must be at most 2147483647, not 2400000000",
                "--graph --device cpu | --graph needs --device cuda, not cpu",
                "--problem a/b | --problem must be letters, digits, '_' and '-', not 'a/b'",
            })
    void invalidArgumentsAreReportedInOneLineWithExitCodeTwo(String arguments, String message) {
        assertRejected(message, run(arguments));
    }

    @Test
    void aModelThatDoesNotFitIsRejectedWithNeededAndAvailableMemory() {
        assertEquals(2, run("--d-model 65536 --heads 512 --layers 400 --device cpu --pass step"));
        assertTrue(
                err.toString()
                        .matches(
                                "too little memory: --size d65536-ff262144-l400-h512-v10000 --pass step needs 439,8\\d\\d\\.\\d GB for"
                                        + " parameters, gradients and optimizer state alone, and cpu has \\d+\\.\\d GB available"),
                err.toString());
    }

    @Test
    void aMissingGpuIsNamedInTheError() {
        Assumptions.assumeTrue(Device.cudaCount() == 0);
        assertEquals(2, run("--device cuda:0"));
        assertTrue(err.toString().startsWith("device cuda:0 is not available"), err.toString());
    }

    @Test
    void everyCombinationIsMeasuredStoredAndPrinted() throws IOException {
        assertEquals(0, run(TINY + "--warmup 0,1 --pass forward,step --keep-steps --problem tiny"), err.toString());
        assertEquals(1, host.warnings().size(), "one warning about the busy host");
        Path csv = folder.resolve("here/tiny.csv");
        Table table = Measurements.read(csv);
        assertEquals(
                List.of("size", "year", "batch", "context", "dtype", "pass", "warmup", "steps"),
                table.columnNames().subList(0, 8));
        assertEquals(2 * 4 + 2 * 5, table.rowCount());
        assertTrue(table.stringColumn("status").allMatch("ok"::equals));
        assertTrue(table.stringColumn("size").allMatch("d16-ff64-l1-h2-v20"::equals));
        assertEquals(
                2 * (3 * 2 + 4 * 2 + 2),
                Measurements.read(folder.resolve("here/tiny_steps.csv")).rowCount());
        List<String> shown = out.toString().lines().toList();
        assertEquals(5, shown.size(), out.toString());
        assertTrue(
                shown.get(0)
                        .matches(
                                "size .* total \\(ms\\) +forward \\(ms\\) +unsynchronized \\(ms\\) +backward \\(ms\\) +optimizer \\(ms\\)"
                                        + " +peak memory \\(GiB\\)"),
                shown.get(0));

        String before = Files.readString(csv);
        assertTrue(progress.toString(StandardCharsets.UTF_8).contains("[4/4] plain size=d16-ff64-l1-h2-v20 year=2025"));
        assertEquals(0, run(TINY + "--warmup 0,1 --pass forward,step --problem tiny"));
        assertTrue(progress.toString(StandardCharsets.UTF_8)
                .endsWith("4 of 4 cases stored already; --again measures them again\n"));
        assertEquals(before, Files.readString(csv), "stored cases are not measured again");
        assertEquals(1, host.warnings().size(), "nothing was timed");
        try (Stream<Path> files = Files.list(csv.getParent())) {
            assertEquals(2, files.count(), "no other files remain in the folder");
        }
    }

    @Test
    void storedMeasurementsDoNotDependOnTheLocale() throws IOException {
        Locale before = Locale.getDefault();
        try {
            Locale.setDefault(Locale.forLanguageTag("ar-SA")); // has its own digits
            assertEquals(0, run(TINY + "--pass forward --problem tiny"), err.toString());
        } finally {
            Locale.setDefault(before);
        }
        String stored = Files.readString(folder.resolve("here/tiny.csv"));
        assertTrue(stored.contains("\nd16-ff64-l1-h2-v20,2025,2,8,fp32,forward,5,2,plain,total,ms,2,"), stored);
    }

    @Test
    void helpHasExamples() {
        assertEquals(0, run("--help"));
        assertTrue(out.toString().contains("cs336 benchmark --size all --context 128,256,512,1024"));
        assertFalse(Files.exists(folder.resolve("here")));
    }

    @Test
    void aDifferentNormalizationIsADifferentImplementation() throws IOException {
        assertEquals(
                0,
                run(TINY + "--warmup 0 --pass forward --normalization rmsnorm,layernorm --problem norms"),
                err::toString);
        Table table = Measurements.read(folder.resolve("here/norms.csv"));
        assertEquals(
                List.of("plain", "layernorm"),
                table.stringColumn("implementation").unique().asList());
    }

    @Test
    void anUnknownNormalizationIsNamed() {
        assertEquals(2, run(TINY + "--normalization batchnorm"));
        assertTrue(err.toString().startsWith("normalization 'batchnorm' is unknown"), err.toString());
    }
}
