package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.ModelSize;
import cs336.bench.Measurements;
import cs336.bench.Project;
import java.io.IOException;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import tech.tablesaw.api.Row;

/** Checks the statements of the chapters against all stored cases. */
class StoredProfilesTest {
    /** Returns medians by case of the 2025 model and metric, without cases that ran out of memory. */
    private static Map<String, Map<String, Double>> cases(String problem) throws IOException {
        return cases(problem, ModelEdition.SPRING_2025);
    }

    private static Map<String, Map<String, Double>> cases(String problem, ModelEdition edition) throws IOException {
        Map<String, Map<String, Double>> cases = new LinkedHashMap<>();
        for (Row row : Measurements.read(Project.path("data/measurements/h200/" + problem + ".csv"))) {
            String name = List.of("size", "year", "batch", "context", "dtype", "pass").stream()
                    .map(column -> String.valueOf(row.getObject(column)))
                    .collect(Collectors.joining(" "));
            if (row.getString("status").equals("ok") && isOf(edition, row)) {
                cases.computeIfAbsent(name, c -> new LinkedHashMap<>())
                        .put(row.getString("metric"), row.getDouble("median"));
            }
        }
        assertFalse(cases.isEmpty());
        return cases;
    }

    private static boolean isOf(ModelEdition edition, Row row) {
        return String.valueOf(row.getObject("year")).equals(String.valueOf(edition.year()));
    }

    @ParameterizedTest
    @EnumSource
    void everyTraceAgreesWithWallTimeWithinFivePercentAndPhasesSumUp(ModelEdition edition) throws IOException {
        cases("profiling", edition).forEach((name, ms) -> {
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
    void allSizesContextsDtypesAndPassesAreStored() throws IOException {
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

    /** Returns the case with the largest value. */
    private static String most(Map<String, Map<String, Double>> cases, ToDoubleFunction<String> value) {
        return cases.keySet().stream().max(Comparator.comparingDouble(value)).orElseThrow();
    }

    @Test
    void theTraceAgreesWithTheStopwatchAndInferenceWithAStep() throws IOException {
        var cases = cases("profiling");
        cases.forEach((name, ms) -> assertEquals(1, ms.get("profiled") / ms.get("stopwatch-profiled"), 0.01, name));
        assertEquals(
                nameOf("small", 512, "bf16", "step"),
                most(
                        cases,
                        name -> Math.abs(cases.get(name).get("forward-kernels")
                                        / cases.get(name.replace("step", "forward"))
                                                .get("forward-kernels")
                                - 1)),
                "forward pass in a step compared with inference");
    }

    @Test
    void theOptimizerTimeDependsNeitherOnContextNorOnDtype() throws IOException {
        var cases = cases("profiling");
        Map<String, Double> times = new HashMap<>(); // by model
        cases.forEach((name, ms) -> {
            if (name.endsWith("step")) {
                double time = ms.get("optimizer-kernels");
                double first = times.computeIfAbsent(name.split(" ")[0], model -> time);
                assertEquals(first, time, 0.02 * first, name);
            }
        });
        assertEquals(5, times.size(), times.toString());
    }

    /** Returns the fraction of the kernel time that a kind takes. */
    private static double fraction(Map<String, Double> ms, String kind) {
        return ms.getOrDefault("total-" + kind, 0.0) / ms.get("total-kernels");
    }

    @Test
    void inAStepCopiesAndSoftmaxTakeASmallerFractionAndGemmsALargerOneAtTheLongestContext() throws IOException {
        var cases = cases("profiling");
        Set<String> fewerGemms = new HashSet<>();
        cases.forEach((name, ms) -> {
            if (name.endsWith("step")) {
                var inference = cases.get(name.replace("step", "forward"));
                assertTrue(fraction(ms, "copy") < fraction(inference, "copy"), name);
                assertTrue(fraction(ms, "softmax") < fraction(inference, "softmax"), name);
                if (name.contains(" 1024 ") && fraction(ms, "matmul") < fraction(inference, "matmul")) {
                    fewerGemms.add(name);
                }
            }
        });
        assertEquals(Set.of(nameOf("2.7B", 1024, "fp32", "step")), fewerGemms);
    }

    /** The kind and name of a kernel, and its time in milliseconds. */
    private record KernelTime(String name, double ms) {}

    /** Returns the longest kernel of each case in a phase of a pass. */
    private static Map<String, KernelTime> longest(String pass, String phase) throws IOException {
        Map<String, KernelTime> longest = new LinkedHashMap<>();
        for (Row row : Measurements.read(Project.path("data/measurements/h200/profiling_kernels.csv"))) {
            if (isOf(ModelEdition.SPRING_2025, row)
                    && row.getString("pass").equals(pass)
                    && row.getString("phase").equals(phase)
                    && row.getInt("rank") == 1
                    && row.getString("metric").equals("time")) {
                longest.put(
                        nameOf(row.getString("size"), row.getInt("context"), row.getString("dtype"), pass),
                        new KernelTime(row.getString("kind") + " " + row.getString("kernel"), row.getDouble("mean")));
            }
        }
        Set<String> all = new HashSet<>(cases("profiling").keySet());
        all.removeIf(name -> !name.endsWith(pass));
        assertEquals(all, longest.keySet(), "every case has one");
        return longest;
    }

    private static final String CAST_TO_FP32 = "copy unrolled_elementwise_kernel: direct_copy";

    @Test
    void theLongestForwardKernelIsAWeightGemmInFp32AndMostlyACastUnderAutocast() throws IOException {
        var inStep = longest("step", "forward");
        longest("forward", "forward").forEach((name, kernel) -> {
            assertEquals(inStep.get(name.replace("forward", "step")).name(), kernel.name(), name);
            String expected = "matmul sm80_xmma_gemm_f32f32_f32f32_f32_tn_.*";
            if (name.contains("bf16")) {
                boolean gemm = name.matches("large .* 1024 .*|2.7B .* (512|1024) .*");
                expected = gemm
                        ? "matmul nvjet_sm90_tst_.*"
                        : name.contains(" 1024 ") ? CAST_TO_FP32 : "copy vectorized_elementwise_kernel: bfloat16_copy";
            }
            assertTrue(kernel.name().matches(expected), name + ": " + kernel);
        });
    }

    @Test
    void withTheBackwardPassItIsMostlyAnotherGemmInFp32AndAlwaysTheCastToFp32UnderAutocast() throws IOException {
        var forward = longest("step", "forward");
        var both = longest("step", "forward-backward");
        Map<Boolean, Long> same = both.entrySet().stream()
                .filter(entry -> entry.getKey().contains("fp32"))
                .collect(Collectors.partitioningBy(
                        entry -> entry.getValue()
                                .name()
                                .equals(forward.get(entry.getKey()).name()),
                        Collectors.counting()));
        assertTrue(same.get(true) < same.get(false), same.toString());
        both.forEach((name, kernel) -> {
            assertTrue(kernel.name().matches(name.contains("fp32") ? "matmul .*" : CAST_TO_FP32), name + ": " + kernel);
        });
    }

    @Test
    void adamwIsTheLongestKernelOfAStepUnderAutocastUntilTheContextIsLong() throws IOException {
        var both = longest("step", "forward-backward");
        longest("step", "optimizer").forEach((name, adamw) -> {
            boolean expected =
                    name.matches(".* 128 bf16 step|(medium|large|xl|2.7B) .* 256 bf16 step|2.7B .* 512 bf16 step");
            assertEquals(expected, adamw.ms() > both.get(name).ms(), name);
        });
    }

    @Test
    void everyPeakMemoryIsWithinFivePercentOfItsPrediction() throws IOException {
        cases("memory_profiling").forEach((name, bytes) -> {
            double peak = bytes.get("peak-memory");
            assertEquals(peak, bytes.get("predicted-peak-memory"), 0.05 * peak, name);
            double categories = bytes.entrySet().stream()
                    .filter(entry -> entry.getKey().matches("peak-(?!memory).*"))
                    .mapToDouble(Map.Entry::getValue)
                    .sum();
            assertEquals(peak, categories, name + ": sum of the categories");
        });
    }
}
