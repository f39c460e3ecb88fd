package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Measurements;
import cs336.bench.Project;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import tech.tablesaw.api.Row;

/** What the chapters say of every case is asked of every case that is stored. */
class StoredProfilesTest {
    /** Medians by case and metric; cases that ran out of memory have none. */
    private static Map<String, Map<String, Double>> cases(String problem) throws IOException {
        Map<String, Map<String, Double>> cases = new LinkedHashMap<>();
        for (Row row : Measurements.read(Project.path("data/measurements/h200/" + problem + ".csv"))) {
            String name = List.of("size", "year", "batch", "context", "dtype", "pass").stream()
                    .map(column -> String.valueOf(row.getObject(column)))
                    .collect(Collectors.joining(" "));
            if (row.getString("status").equals("ok")) {
                cases.computeIfAbsent(name, c -> new LinkedHashMap<>())
                        .put(row.getString("metric"), row.getDouble("median"));
            }
        }
        assertFalse(cases.isEmpty());
        return cases;
    }

    @Test
    void everyTraceAgreesWithItsStopwatchWithinFivePercentAndItsKernelsAddUp() throws IOException {
        cases("profiling").forEach((name, ms) -> {
            double clock = ms.get("stopwatch-profiled");
            assertEquals(clock, ms.get("profiled"), 0.05 * clock, name);
            assertTrue(ms.get("busy") <= ms.get("profiled"), name);
            double phases = List.of("forward", "backward", "optimizer").stream()
                    .mapToDouble(phase -> ms.getOrDefault(phase + "-kernels", 0.0))
                    .sum();
            assertEquals(
                    ms.get("total-kernels"), phases, 0.01 * phases, name + ": medians of sums, and sums of medians");
        });
    }

    @Test
    void everyPeakOfMemoryIsWithinFivePercentOfWhatWasPredicted() throws IOException {
        cases("memory_profiling").forEach((name, bytes) -> {
            double peak = bytes.get("peak-memory");
            assertEquals(peak, bytes.get("predicted-peak-memory"), 0.05 * peak, name);
            double parts = bytes.entrySet().stream()
                    .filter(part -> part.getKey().matches("peak-(?!memory).*"))
                    .mapToDouble(Map.Entry::getValue)
                    .sum();
            assertEquals(peak, parts, name + ": what it holds");
        });
    }
}
