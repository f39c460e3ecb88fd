package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelSize;
import cs336.bench.Measurements;
import cs336.bench.Project;
import java.io.IOException;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.ToDoubleFunction;
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

    private static String nameOf(String size, int context, String dtype, String pass) {
        return String.join(" ", size, "2025", "4", String.valueOf(context), dtype, pass);
    }

    @Test
    void everySizeIsThereAtEveryContextInBothTypesForwardAndAsAStep() throws IOException {
        Set<String> grid = new HashSet<>();
        for (ModelSize size : ModelSize.values()) {
            for (int context : List.of(128, 256, 512, 1024)) {
                for (String dtype : List.of("fp32", "bf16")) {
                    grid.add(nameOf(size.label(), context, dtype, "forward"));
                    grid.add(nameOf(size.label(), context, dtype, "step"));
                }
            }
        }
        assertEquals(grid, cases("profiling").keySet());
    }

    /** The case that has the greatest of all values. */
    private static String most(Map<String, Map<String, Double>> cases, ToDoubleFunction<String> value) {
        return cases.keySet().stream().max(Comparator.comparingDouble(value)).orElseThrow();
    }

    @Test
    void theChapterNamesTheExtremes() throws IOException {
        var cases = cases("profiling");
        BiFunction<String, String, ToDoubleFunction<String>> ratio = (part, whole) ->
                name -> cases.get(name).get(part) / cases.get(name).get(whole);
        var agreement = ratio.apply("profiled", "stopwatch-profiled");
        assertEquals(nameOf("small", 128, "bf16", "forward"), most(cases, name -> -agreement.applyAsDouble(name)));
        assertEquals(nameOf("2.7B", 1024, "fp32", "step"), most(cases, agreement));
        assertEquals(
                nameOf("2.7B", 256, "bf16", "forward"), most(cases, ratio.apply("stopwatch-profiled", "stopwatch")));
        assertEquals(
                nameOf("small", 256, "bf16", "step"),
                most(
                        cases,
                        name -> Math.abs(cases.get(name).get("forward-kernels")
                                        / cases.get(name.replace("step", "forward"))
                                                .get("forward-kernels")
                                - 1)),
                "forward pass in a step against one alone");
    }

    @Test
    void theOptimizerTakesAsLongAtEveryContextAndInBothTypes() throws IOException {
        var cases = cases("profiling");
        cases.forEach((name, ms) -> {
            if (name.endsWith("step")) {
                double fp32 = cases.get(nameOf(name.split(" ")[0], 128, "fp32", "step"))
                        .get("optimizer-kernels");
                assertEquals(fp32, ms.get("optimizer-kernels"), 0.02 * fp32, name);
            }
        });
    }

    /** The longest kernel of each case in a phase of a pass. */
    private static Map<String, String> longest(String pass, String phase) throws IOException {
        Map<String, String> longest = new LinkedHashMap<>();
        for (Row row : Measurements.read(Project.path("data/measurements/h200/profiling_kernels.csv"))) {
            if (row.getString("pass").equals(pass) && row.getString("phase").equals(phase) && row.getInt("rank") == 1) {
                longest.put(
                        nameOf(row.getString("size"), row.getInt("context"), row.getString("dtype"), pass),
                        row.getString("kind") + " " + row.getString("kernel"));
            }
        }
        return longest;
    }

    @Test
    void theLongestKernelIsAProductInFp32AndACastUnderAutocastAndSeldomStaysTheSameWithTheBackwardPass()
            throws IOException {
        var forward = longest("step", "forward");
        var both = longest("step", "forward-backward");
        assertEquals(forward.keySet(), both.keySet());
        assertEquals(
                Set.of(
                        nameOf("small", 256, "fp32", "step"),
                        nameOf("xl", 1024, "fp32", "step"),
                        nameOf("xl", 1024, "bf16", "step")),
                both.keySet().stream()
                        .filter(name -> both.get(name).equals(forward.get(name)))
                        .collect(Collectors.toSet()));
        var all = new LinkedHashMap<>(longest("forward", "forward"));
        all.forEach((name, kernel) ->
                assertEquals(forward.getOrDefault(name.replaceAll("forward$", "step"), kernel), kernel, name));
        all.putAll(both);
        all.forEach((name, kernel) ->
                assertEquals(name.contains("bf16") ? "copy" : "matmul", kernel.split(" ")[0], name + ": " + kernel));
        both.forEach((name, kernel) -> assertTrue(!name.contains("bf16") || kernel.contains("direct_copy"), name));
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
