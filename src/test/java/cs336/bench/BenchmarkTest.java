package cs336.bench;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.TinyConfig;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.torch.Device;
import cs336.torch.MemoryStats;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.Arrays;
import java.util.List;
import java.util.stream.DoubleStream;
import org.bytedeco.pytorch.Context;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class BenchmarkTest {
    private static final TransformerConfig TINY = TinyConfig.create();

    private TransformerLM model;

    @BeforeEach
    void makeModel() {
        Torch.seed(0);
        model = new TransformerLM(TINY, Device.cpu());
    }

    @AfterEach
    void closeModel() {
        model.close();
    }

    private Benchmark benchmark() {
        return Benchmark.of(model).batch(2).context(8).warmup(1).steps(3);
    }

    private static List<String> metrics(BenchmarkResult result) {
        return result.samples().stream().map(s -> s.metric().name()).toList();
    }

    private double[] head() {
        return Tensors.toDoubles(model.namedParameters().get("lm_head.weight"));
    }

    private boolean hasGradients() {
        return model.parameters().stream().anyMatch(p -> p.grad().defined());
    }

    @Test
    void eachPassIsTimedAsAWholeAndByPhase() {
        assertEquals(
                List.of("total", "forward", "unsynchronized", "peak-memory"),
                metrics(benchmark().run(Pass.FORWARD)));
        assertEquals(
                List.of("total", "forward", "peak-memory"), metrics(benchmark().run(Pass.FORWARD_GRAPH)));
        assertEquals(
                List.of("total", "forward", "backward", "peak-memory"),
                metrics(benchmark().run(Pass.FORWARD_BACKWARD)));
        BenchmarkResult step = benchmark().run(Pass.STEP);
        assertEquals(List.of("total", "forward", "backward", "optimizer", "peak-memory"), metrics(step));
        for (String phase : List.of("total", "forward", "backward", "optimizer")) {
            assertEquals(3, step.samples(phase).values().size(), phase);
            assertTrue(step.samples(phase).summary().min() > 0, phase);
        }
        assertTrue(step.samples("peak-memory").values().get(0) > 1e7, "a JVM with libtorch uses more than 10 MB");
    }

    @ParameterizedTest
    @EnumSource(Pass.class)
    void onlyTheOptimizerUpdatesParametersAndAllGradientsAreFreed(Pass pass) {
        double[] before = head();
        benchmark().run(pass);
        assertEquals(pass != Pass.STEP, Arrays.equals(before, head()));
        assertFalse(hasGradients());
    }

    @Test
    void bothRoundsHaveTheirOwnWarmUp() {
        Benchmark.of(model).batch(2).context(8).warmup(2).steps(1).run(Pass.STEP);
        double[] benchmarked = head();
        Torch.seed(0);
        try (var same = new TransformerLM(TINY, Device.cpu());
                var step = Benchmark.of(same).batch(2).context(8).step(Pass.STEP)) {
            for (int i = 0; i < 2 * (2 + 1); i++) {
                step.run();
            }
            assertArrayEquals(Tensors.toDoubles(same.namedParameters().get("lm_head.weight")), benchmarked);
        }
    }

    static final class LargeSteps implements MemoryGrowth.Work {
        private final Benchmark large = Benchmark.of(new TransformerLM(TINY, Device.cpu()))
                .batch(64) // about 5 MB of activations
                .context(16)
                .warmup(0)
                .steps(2);

        @Override
        public void step() {
            large.run(Pass.STEP);
        }
    }

    @Test
    void aStepFreesItsTensors() throws Exception {
        MemoryGrowth.assertFlat(LargeSteps.class, 2, 50_000);
    }

    @ParameterizedTest
    @EnumSource(Precision.class)
    void everyPrecisionRunsAllPhasesAndUpdatesParameters(Precision precision) {
        double[] before = head();
        BenchmarkResult result = benchmark().precision(precision).run(Pass.STEP);
        assertEquals(5, result.samples().size());
        assertTrue(result.title().contains(precision.toString()));
        assertFalse(Arrays.equals(before, head()));
    }

    @Test
    void theTf32SettingOfCudnnIsRestored() {
        Context context = torch.globalContext();
        boolean before = context.allowTF32CuDNN();
        try {
            context.setAllowTF32CuDNN(true);
            benchmark().precision(Precision.FP32).run(Pass.FORWARD);
            assertTrue(context.allowTF32CuDNN());
        } finally {
            context.setAllowTF32CuDNN(before);
        }
    }

    @Test
    void anInterruptedThreadRunsABenchmark() {
        Thread.currentThread().interrupt();
        try {
            benchmark().run(Pass.FORWARD);
            assertTrue(Thread.currentThread().isInterrupted());
        } finally {
            Thread.interrupted();
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = Precision.class,
            names = {"FP32", "TF32"})
    void tf32IsAllowedOnlyDuringABenchmark(Precision precision) {
        boolean before = Torch.allowsTf32();
        try {
            for (boolean allowed : new boolean[] {false, true}) {
                Torch.allowTf32(allowed);
                Benchmark benchmark = Benchmark.of(model)
                        .batch(1)
                        .context(8)
                        .warmup(0)
                        .steps(1)
                        .precision(precision);
                try (var step = benchmark.step(Pass.FORWARD)) {
                    assertEquals(precision.tf32(), Torch.allowsTf32());
                }
                assertEquals(allowed, Torch.allowsTf32());
                benchmark.run(Pass.FORWARD);
                assertEquals(allowed, Torch.allowsTf32());
            }
        } finally {
            Torch.allowTf32(before);
        }
    }

    @Test
    void aResultIsShownAsTableAndAsText() {
        var result = new BenchmarkResult(
                "forward, fp32, batch 4, context 256, 5 + 10 steps on cpu",
                List.of(
                        new Samples(Metric.ms("total"), List.of(10.0, 12.0)),
                        Samples.once(Metric.bytes("peak-memory"), 3_000_000)));
        assertEquals(
                List.of("metric", "unit", "n", "mean", "std", "median", "min", "max"),
                result.table().columnNames());
        assertEquals("""
                forward, fp32, batch 4, context 256, 5 + 10 steps on cpu
                metric       unit  n   mean    std  median    min    max
                total        ms    2  11.00  1.414   11.00  10.00  12.00
                peak-memory  MB    1  3.000          3.000  3.000  3.000""", result.toString());
        var e = assertThrows(IllegalArgumentException.class, () -> result.samples("backward"));
        assertTrue(e.getMessage().contains("[total, peak-memory]"), e.getMessage());
    }

    @Test
    void invalidSettingsAreRejectedBeforeAnythingRuns() {
        Benchmark benchmark = Benchmark.of(model);
        for (var setting : List.<Runnable>of(
                () -> benchmark.batch(0),
                () -> benchmark.context(0),
                () -> benchmark.context(17),
                () -> benchmark.warmup(-1),
                () -> benchmark.steps(0))) {
            var e = assertThrows(IllegalArgumentException.class, setting::run);
            assertTrue(e.getMessage().matches("\\w+ must be at (least|most) .* not -?\\d+"), e.getMessage());
        }
    }

    @Test
    @Tag("gpu")
    void onAGpuEachTimeIsAlsoMeasuredWithEventsAndThePeakIsTheAllocators() {
        long before = MemoryStats.current(Device.cuda(0)); // tensors of other tests
        try (var onGpu = new TransformerLM(TINY, Device.cuda(0))) {
            BenchmarkResult result =
                    Benchmark.of(onGpu).batch(2).context(8).warmup(1).steps(3).run(Pass.STEP);
            for (String phase : List.of("total", "forward", "backward", "optimizer")) {
                assertEquals(3, result.samples(phase + "-events").values().size(), phase);
            }
            double parameters = onGpu.parameterCount() * 4.0;
            double peak = result.samples("peak-memory").values().get(0) - before;
            double cublasWorkspace = 64 << 20; // not a tensor, but allocated by the same allocator
            assertTrue(
                    peak > 4 * parameters && peak < cublasWorkspace + 5e6,
                    peak + " bytes for parameters of " + parameters);
        }
    }

    @Test
    void aGraphNeedsAGpu() {
        var e = assertThrows(IllegalArgumentException.class, () -> benchmark().graph(true));
        assertEquals("graph needs a model on a GPU, not on cpu", e.getMessage());
    }

    @ParameterizedTest
    @EnumSource(Precision.class)
    @Tag("gpu")
    void graphedStepsTrainLikePlainOnes(Precision precision) {
        assertArrayEquals(trained(precision, false), trained(precision, true));
    }

    /** Returns all parameters after the benchmark's steps. */
    private static double[] trained(Precision precision, boolean graph) {
        Torch.seed(0);
        try (var onGpu = new TransformerLM(TINY, Device.cuda(0))) {
            BenchmarkResult result = Benchmark.of(onGpu)
                    .batch(2)
                    .context(8)
                    .warmup(1)
                    .steps(3)
                    .precision(precision)
                    .graph(graph)
                    .run(Pass.STEP);
            String passes = graph ? "forward-backward" : "backward";
            assertEquals(3, result.samples(passes).values().size());
            assertEquals(3, result.samples("optimizer-events").values().size());
            return onGpu.parameters().stream()
                    .flatMapToDouble(p -> DoubleStream.of(Tensors.toDoubles(p)))
                    .toArray();
        }
    }
}
