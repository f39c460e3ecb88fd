package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.CommandTest;
import cs336.bench.Measurements;
import cs336.profile.memory.MemoryCategory;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tech.tablesaw.api.Row;

class ShardCommandTest extends CommandTest {
    private static final double LARGEST_BUCKET = 500 * 64 * 4; // the embedding table has a bucket of its own

    private static final String TINY = "--d-model 64 --layers 2 --heads 2 --vocab 500 --batch 2 --context 32"
            + " --bucket-size-mb 0.1 --machine here --device cpu --warmup 1 --steps 2 --rounds 2 ";

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "--mode half | mode 'half' is unknown; known: unsharded, broadcast, all-gather, zero-1, unsynchronized",
                "--bucket-size-mb 0 | --bucket-size-mb must be above 0, not 0.0",
                "--bucket-size-mb 99999999999999 | --bucket-size-mb must be at most 9223372036854, not 9.9999999999999E13",
                "--backend mpi | backend 'mpi' is unknown; known: gloo, nccl",
                "--processes 0 | --processes must be at least 1, not 0",
                "--steps 0 | --steps must be at least 1, not 0",
                "--attention plain-compiled | the memory of rmsnorm with plain-compiled attention is not predicted; predicted are layernorm, rmsnorm, rmsnorm-fused with plain, flash, flash-3xtf32, flash-deterministic, flash-mma, flash-tf32, flash-tiled, sdpa",
                "--device cuda:1 | --device must be best, cpu or cuda (each rank selects its own GPU), not 'cuda:1'",
            })
    void invalidOptionsAreOneLineAndExitCodeTwo(String arguments, String message) {
        assertEquals(2, run(new ShardCommand(), arguments));
        assertEquals(message, err.toString());
    }

    @Test
    void everyModeStoresConsistentAndPredictedMemoryAndCountedBytes() throws IOException {
        assertEquals(0, run(new ShardCommand(), TINY), err.toString());
        assertEquals(1, host.warnings().size(), "one warning about the busy host");
        String said = progress.toString(StandardCharsets.UTF_8);
        assertTrue(said.contains("[0] memory [2/5] plain size="), said);
        assertTrue(said.contains("[0] round 2 of 2 [5/5] plain size="), said);
        Map<String, Double> numbers = new HashMap<>();
        for (Row row : Measurements.read(folder.resolve("here/optimizer_state_sharding_accounting.csv"))) {
            assertEquals("ok", row.getString("status"));
            numbers.put(row.getString("mode") + " " + row.getString("metric"), row.getDouble("mean"));
        }
        double parameters = numbers.get("unsharded init-parameters");
        for (String mode : List.of("unsharded", "broadcast", "all-gather", "zero-1")) {
            for (String point : FirstStepsMemory.POINTS) {
                String name = mode + " " + point;
                double inUse = numbers.get(name);
                assertEquals(inUse, sumOfCategories(numbers, name), name);
                assertEquals(numbers.get(name + "-peak"), sumOfCategories(numbers, name + "-peak"), name);
                assertWithin(numbers.get(name + "-predicted"), 0.01, copies(mode), inUse, name);
                double peak = numbers.get(name + "-peak");
                assertTrue(peak >= inUse, name);
                assertWithin(numbers.get(name + "-peak-predicted"), 0.02, copies(mode), peak, name + "-peak");
            }
            String second = mode + " " + FirstStepsMemory.SECOND_STEP_PEAK;
            assertEquals(numbers.get(second), sumOfCategories(numbers, second), second);
            assertWithin(numbers.get(second + "-predicted"), 0.02, copies(mode), numbers.get(second), second);
            double factor = mode.equals("unsharded") ? 2 : 1;
            assertEquals(factor * parameters, numbers.get(second + "-optimizer-state"), 0.001 * parameters);
            assertEquals(factor * parameters, numbers.get(mode + " after-step-optimizer-state"), 0.001 * parameters);
            assertEquals(0, numbers.get(mode + " before-step-optimizer-state"), mode);
            assertTrue(numbers.get(mode + " imbalance") < 1.05);
            assertTrue(numbers.get(mode + " total") > 0);
        }
        // On two ranks an all-reduce sends as many bytes as the tensor has, any other collective half of them.
        assertSent(numbers, "unsharded", parameters, 1, 1);
        assertSent(numbers, "broadcast", parameters, 2, 1.5);
        assertSent(numbers, "all-gather", parameters, 2, 1.5);
        assertSent(numbers, "zero-1", parameters, 2, 1);
        // The operating system's counters. Gloo's reduce-scatter sends as much as its all-reduce.
        assertEquals(1, numbers.get("unsharded sent") / parameters, 0.05);
        assertEquals(1.5, numbers.get("broadcast sent") / parameters, 0.05);
        assertEquals(1.5, numbers.get("all-gather sent") / parameters, 0.05);
        assertEquals(1.5, numbers.get("zero-1 sent") / parameters, 0.05);
    }

    /** Returns the bytes that Gloo copies on the CPU and frees asynchronously, which is not predicted. */
    private static double copies(String mode) {
        return mode.equals("unsharded") || mode.equals("broadcast") ? 0 : 3 * LARGEST_BUCKET;
    }

    private static double sumOfCategories(Map<String, Double> numbers, String when) {
        double sum = 0;
        for (MemoryCategory category : MemoryCategory.values()) {
            sum += numbers.get(when + "-" + category.column());
        }
        return sum;
    }

    /** Allows a relative tolerance, and more bytes above the expected value. */
    private static void assertWithin(double expected, double tolerance, double more, double found, String name) {
        assertTrue(found >= (1 - tolerance) * expected, () -> name + " is " + found + ", below " + expected);
        assertTrue(found <= (1 + tolerance) * expected + more, () -> name + " is " + found + ", above " + expected);
    }

    private static void assertSent(
            Map<String, Double> numbers, String mode, double parameters, double handed, double sent) {
        assertEquals(handed, numbers.get(mode + " handed") / parameters, 0.01, mode);
        assertEquals(sent, numbers.get(mode + " least-sent") / parameters, 0.01, mode);
    }
}
