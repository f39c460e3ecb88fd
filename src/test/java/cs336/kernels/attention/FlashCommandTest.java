package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.Table;

/** The commands {@code flash} and {@code leaderboard}. */
class FlashCommandTest extends CommandTest {
    private int flash(String arguments) {
        return run(new FlashCommand(), arguments);
    }

    private int leaderboard(String arguments) {
        return run(new LeaderboardCommand(), arguments);
    }

    private Table stored(String problem) throws IOException {
        return Measurements.read(folder.resolve("here/" + problem + ".csv"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--attention linear | attention 'linear' is unknown; known: ",
                "--dtype fp64 | dtype 'fp64' is unknown; known: fp32, bf16, fp16",
                "--batch 0 | --batch must be at least 1, not 0",
                "--heads 0 | --heads must be at least 1, not 0",
                "--d 16,0 | --d must be at least 1, not 0",
                "--context -1 | --context must be at least 1, not -1",
                "--warmup -1 | --warmup must be at least 0, not -1",
                "--rep 0 | --rep must be at least 1, not 0",
                "--problem a/b | --problem must be letters, digits, '_' and '-', not 'a/b'",
            })
    void wrongUseOfFlashIsOneLineAndExitCodeTwo(String arguments, String message) {
        assertEquals(2, flash(arguments));
        assertTrue(err.toString().startsWith(message), err.toString());
        assertEquals(1, err.toString().lines().count());
        assertEquals("", out.toString());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--attention linear | attention 'linear' is unknown; known: ",
                "--heads 0 | --heads must be at least 1, not 0",
                "--d 0 | --d must be at least 1, not 0",
                "--context 0 | --context must be at least 1, not 0",
                "--warmup -1 | --warmup must be at least 0, not -1",
                "--rep 0 | --rep must be at least 1, not 0",
                "--round 0 | --round must be at least 1, not 0",
            })
    void wrongUseOfLeaderboardIsOneLineAndExitCodeTwo(String arguments, String message) {
        assertEquals(2, leaderboard(arguments));
        assertTrue(err.toString().startsWith(message), err.toString());
        assertEquals(1, err.toString().lines().count());
        assertEquals("", out.toString());
    }

    @Test
    void everyImplementationIsMeasuredAndStoredAndWhatDoesNotFitIsOutOfMemory() throws IOException {
        String small = "--d 8 --dtype fp32 --warmup 0 --rep 1 --device cpu --machine here ";
        assertEquals(0, flash(small + "--attention plain,flash,sdpa --heads 2 --context 32"), err.toString());
        List<String> shown = out.toString().lines().toList();
        assertEquals(4, shown.size(), out.toString());
        assertTrue(
                shown.get(0)
                        .matches("batch +heads +d +context +dtype +causal +implementation +forward \\(ms\\)"
                                + " +backward \\(ms\\) +forward \\+ backward \\(ms\\) +peak memory \\(MiB\\)"),
                shown.get(0));

        assertEquals(0, flash(small + "--attention plain --context 4000000,16 --no-mask"), "32 TB a matrix");
        Table table = stored("flash_benchmarking");
        assertEquals(
                List.of("batch", "heads", "d", "context", "dtype", "causal", "implementation", "metric"),
                table.columnNames().subList(0, 8));
        assertEquals(
                List.of("forward", "backward", "forward-backward", "peak-memory"),
                table.stringColumn("metric").first(4).asList());
        assertEquals(5 * 4, table.rowCount());
        Table large = table.where(table.intColumn("context").isEqualTo(4_000_000));
        assertEquals(4, large.rowCount());
        assertTrue(large.stringColumn("status").allMatch("oom"::equals));
        Table fits = table.where(table.intColumn("context").isLessThan(4_000_000));
        assertTrue(fits.stringColumn("status").allMatch("ok"::equals));
        assertTrue(fits.doubleColumn("median").min() >= 0);
    }

    @Test
    void aSecondRunMeasuresOnlyWhatIsMissing() throws IOException {
        String line = "--attention flash --d 8 --dtype fp32 --warmup 0 --rep 1 --device cpu --machine here --context ";
        assertEquals(0, flash(line + "16"));
        List<Double> first = stored("flash_benchmarking").doubleColumn("median").asList();
        progress.reset();
        assertEquals(0, flash(line + "16,32"));
        String printed = progress.toString(StandardCharsets.UTF_8);
        assertTrue(printed.contains("1 of 2 cases stored already"), printed);
        List<Double> both = stored("flash_benchmarking").doubleColumn("median").asList();
        assertEquals(8, both.size());
        assertEquals(first, both.subList(0, 4));
    }

    @Test
    void withoutAGpuTheLeaderboardReportsThatItsSizeIsSmall() throws IOException {
        assertEquals(0, leaderboard("--device cpu --machine here --warmup 0 --rep 1 --round 2"));
        String printed = progress.toString(StandardCharsets.UTF_8);
        assertTrue(
                printed.contains("no GPU: heads × tokens default to 2 × 256, not to the leaderboard's 16 × 16,384"),
                printed);
        Table table = stored("flash_leaderboard");
        assertEquals(
                List.of(
                        "batch",
                        "heads",
                        "d",
                        "context",
                        "dtype",
                        "causal",
                        "warmup",
                        "rep",
                        "round",
                        "implementation"),
                table.columnNames().subList(0, 10));
        assertEquals(
                List.of("leaderboard", "forward-backward", "forward"),
                table.stringColumn("metric").asList());
        assertTrue(table.stringColumn("status").allMatch("ok"::equals));
        assertEquals(256, table.intColumn("context").get(0));
        assertEquals(2, table.intColumn("round").get(0));
        assertFalse(table.stringColumn("device").get(0).contains("NVIDIA"), "a CPU run is shown as a CPU run");
    }
}
