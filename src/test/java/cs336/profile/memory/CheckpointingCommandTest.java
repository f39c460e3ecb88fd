package cs336.profile.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

class CheckpointingCommandTest extends CommandTest {
    private int run(String arguments) {
        return run(new CheckpointingCommand(), arguments);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--policy half | checkpointing policy 'half' is unknown; known: everything, elementwise, elementwise+ffn-<k>, elementwise+offload-<k>, all-but-ffn, ffn-<k>, nothing, blocks-<k>, recursive, budget-<MiB>",
                "--policy blocks-0 | checkpointing policy 'blocks-0' is unknown; known: everything, elementwise, elementwise+ffn-<k>, elementwise+offload-<k>, all-but-ffn, ffn-<k>, nothing, blocks-<k>, recursive, budget-<MiB>",
                "--policy budget-9 --attention plain-compiled | --policy budget-9 needs a prediction of the model's memory, but none exists for --normalization rmsnorm with --attention plain-compiled",
                "--steps 0 | --steps must be at least 1, not 0",
                "--warmup -1 | --warmup must be at least 0, not -1",
                "--size huge | size 'huge' is unknown; known: small, medium, large, xl, 2.7B. --d-model, --d-ff, --layers, --heads and --vocab set other sizes",
            })
    void wrongUseIsReportedInOneLineWithExitCodeTwo(String arguments, String message) {
        assertRejected(message, run(arguments));
    }

    @Test
    void peaksAreStoredNextToTheirPredictionsWithTimes() throws IOException {
        String tiny = "--d-model 64 --layers 4 --heads 2 --vocab 50 --batch 2 --context 64 --device cpu --machine here"
                + " --warmup 0 --steps 1 --policy everything,blocks-2,budget-1";
        assertEquals(0, run(tiny), err.toString());
        Map<String, Double> means = new HashMap<>();
        Table stored = Measurements.read(folder.resolve("here/gradient_checkpointing.csv"));
        for (Row row : stored) {
            assertEquals("ok", row.getString("status"), row.getString("metric"));
            means.put(row.getString("checkpointing") + " " + row.getString("metric"), row.getDouble("mean"));
        }
        for (String policy : new String[] {"everything", "blocks-2", "budget-1"}) {
            double peak = means.get(policy + " peak-memory");
            assertEquals(peak, means.get(policy + " predicted-peak-memory"), 0.001 * peak, policy);
            assertTrue(means.get(policy + " total") > 0);
            assertTrue(means.get(policy + " backward") > 0);
        }
        assertTrue(means.get("blocks-2 peak-memory") < means.get("everything peak-memory"));
        assertTrue(means.get("budget-1 peak-memory") <= means.get("everything peak-memory"));
        assertEquals(4, means.get("blocks-2 recomputed-blocks"));
    }
}
