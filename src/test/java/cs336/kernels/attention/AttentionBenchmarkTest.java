package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class AttentionBenchmarkTest {
    @Test
    void settersRefuseNumbersBelowTheirMinimumAndNameTheSetting() {
        var benchmark = AttentionBenchmark.of("plain");
        Map<String, Executable> calls = Map.of(
                "batch must be at least 1, not 0", () -> benchmark.batch(0),
                "context must be at least 1, not 0", () -> benchmark.context(0),
                "d must be at least 1, not 0", () -> benchmark.d(0),
                "warmup must be at least 0, not -1", () -> benchmark.warmup(-1),
                "steps must be at least 1, not 0", () -> benchmark.steps(0));
        calls.forEach((message, call) -> assertEquals(
                message, assertThrows(IllegalArgumentException.class, call).getMessage()));
    }
}
