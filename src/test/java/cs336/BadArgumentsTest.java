package cs336;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.ChildJvm;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Runs {@link BadArgumentCalls} in a process of its own, because the calls change settings of libtorch, and a missing
 * check may end the process.
 */
class BadArgumentsTest {
    @Test
    @Timeout(300)
    void badArgumentsAreAcceptedOrReportedInOneLine(@TempDir Path folder) throws Exception {
        List<String> output = new CopyOnWriteArrayList<>();
        try (var process = ChildJvm.start(BadArgumentCalls.class, Map.of(), output::add)) {
            process.tell(folder.toString());
            requireClear("null", process, 1000, output);
            requireClear("a closed tensor", process, 50, output);
            requireClear("a tensor of another dtype", process, 50, output);
            requireClear("a tensor without dimensions", process, 50, output);
            requireClear("a closed object", process, 100, output);
        }
    }

    /** @param least the number of calls that must be possible, so that the test cannot become empty */
    private static void requireClear(String what, ChildJvm process, int least, List<String> output)
            throws InterruptedException {
        String answer = process.answer(Duration.ofSeconds(280));
        assertNotNull(answer, () -> "with " + what + " the process ended: " + output);
        String[] parts = answer.split(BadArgumentCalls.SEPARATOR);
        int calls = Integer.parseInt(parts[0]);
        List<String> unclear = Arrays.asList(parts).subList(1, parts.length);
        assertEquals("", String.join("\n", unclear), unclear.size() + " of " + calls + " calls with " + what);
        assertTrue(calls >= least, "only " + calls + " calls with " + what);
    }
}
