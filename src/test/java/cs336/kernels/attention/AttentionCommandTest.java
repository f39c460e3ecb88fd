package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.Table;

class AttentionCommandTest extends CommandTest {
    private int run(String arguments) {
        return run(new AttentionCommand(), arguments);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--attention linear | attention 'linear' is unknown; known: flash, flash-3xtf32, flash-deterministic, flash-first, flash-mma, flash-tf32, flash-tiled, plain, plain-compiled, sdpa",
                "--dtype fp64 | dtype 'fp64' is unknown; known: fp32, bf16, fp16",
                "--batch 0 | --batch must be at least 1, not 0",
                "--d 16,0 | --d must be at least 1, not 0",
                "--context -1 | --context must be at least 1, not -1",
                "--warmup -1 | --warmup must be at least 0, not -1",
                "--steps 0 | --steps must be at least 1, not 0",
                "--time-limit 0 | --time-limit must be at least 1, not 0",
            })
    void wrongUseIsOneLineAndExitCodeTwo(String arguments, String message) {
        assertRejected(message, run(arguments));
    }

    @Test
    void everyImplementationIsMeasuredStoredAndShownAndWhatDoesNotFitIsOutOfMemory() throws IOException {
        String small = "--batch 2 --d 8 --warmup 0 --steps 2 --device cpu --machine here --causal ";
        assertEquals(0, run(small + "--attention plain,flash --context 32"), err.toString());
        List<String> shown = out.toString().lines().toList();
        assertEquals(3, shown.size(), out.toString());
        assertTrue(
                shown.get(0)
                        .matches("batch +d +context +dtype +causal +warmup +steps +implementation +forward \\(ms\\)"
                                + " +backward \\(ms\\) +memory at rest \\(GiB\\) +peak memory forward \\(GiB\\)"
                                + " +memory before backward \\(GiB\\) +peak memory backward \\(GiB\\)"),
                shown.get(0));
        assertTrue(shown.get(1).contains("plain") && shown.get(2).contains("flash"), out.toString());

        assertEquals(0, run(small + "--context 4000000"), "128 TB a matrix");
        Table table = Measurements.read(folder.resolve("here/pytorch_attention.csv"));
        assertEquals(
                List.of("batch", "d", "context", "dtype", "causal", "warmup", "steps", "implementation", "metric"),
                table.columnNames().subList(0, 9));
        assertEquals(3 * 6, table.rowCount());
        Table large = table.where(table.intColumn("context").isEqualTo(4_000_000));
        assertEquals(6, large.rowCount());
        assertTrue(large.stringColumn("status").allMatch("oom"::equals));
        Table fits = table.where(table.intColumn("context").isEqualTo(32));
        assertTrue(fits.stringColumn("status").allMatch("ok"::equals));
    }
}
