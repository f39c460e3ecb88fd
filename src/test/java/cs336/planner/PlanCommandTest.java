package cs336.planner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.Main;
import cs336.bench.CommandTest;
import cs336.bench.TestJvm;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PlanCommandTest extends CommandTest {
    private int run(String arguments) {
        return runWithoutOutput(new PlanCommand(), arguments);
    }

    @Test
    void memoryTimeAndStoredMeasurementsArePrinted() {
        assertEquals(0, run("--size xl --context 512"));
        String shown = out.toString();
        for (String expected : new String[] {
            "step of a model with 1,998,235,200 parameters",
            "optimizer state",
            "fits: 43",
            "GEMMs",
            "benchmarking_script"
        }) {
            assertTrue(shown.contains(expected), expected + " in\n" + shown);
        }
    }

    @Test
    void outsideOfTheProjectOnlyMemoryIsPredicted() throws Exception {
        Process plan = TestJvm.of(Main.class, "plan", "--d-model", "64", "--layers", "2", "--heads", "2")
                .directory(folder.toFile())
                .redirectErrorStream(true)
                .start();
        String shown = new String(plan.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, plan.waitFor(), shown);
        assertTrue(shown.contains("fits: 0."), shown);
        assertTrue(shown.strip().endsWith("run plan in the project's folder, not in " + folder.toRealPath()), shown);
    }

    @Test
    void aCaseThatDoesNotFitIsTheExitCode() {
        assertEquals(1, run("--size xl --context 2048"));
        assertTrue(out.toString().contains("out of memory: 163"), out.toString());
        assertTrue(out.toString().contains("gradient_checkpointing (out of memory)"), out.toString());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "--processes 0 | --processes must be at least 1, not 0",
                "--mode hsdp --processes 2 | mode must be ddp, zero-1, fsdp or fsdp-without-prefetch, not hsdp",
                "--mode fsdp | --mode has no effect on one GPU",
                "--bucket-size-mb 10 | --bucket-size-mb has no effect on one GPU",
                "--processes 2 --mode fsdp --bucket-size-mb 10 | --bucket-size-mb has no effect with --mode fsdp",
                "--bucket-size-mb 0 | --bucket-size-mb must be above 0, not 0.0",
                "--bucket-size-mb 99999999999999 | --bucket-size-mb must be at most 9223372036854, not 9.9999999999999E13",
                "--d-model 1000000000 --layers 1 --heads 1 --d-ff 16 --vocab 16 --batch 1 --context 2 | --size"
                        + " d1000000000-ff16-l1-h1-v16 with --batch 1 and --context 2 must need at most 2^63 - 1 bytes"
                        + " of memory",
            })
    void wrongUseFailsWithOneLine(String arguments, String message) {
        assertRejected(message, run(arguments));
    }
}
