package cs336.profile;

import static cs336.profile.TraceText.ENGINE;
import static cs336.profile.TraceText.MAIN;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Metric;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.torch.Device;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import tech.tablesaw.api.Table;

class StepProfileTest {
    /**
     * A warm-up step and a counted step with two GEMMs, a softmax and a reduction in the forward pass, and their
     * gradients.
     */
    private static Trace trace() {
        return new TraceText()
                .range(MAIN, "ProfilerStep#0", 0, 900)
                .range(MAIN, "forward", 0, 800)
                .launch(MAIN, 10, 20, 1)
                .kernel(7, "sgemm", 100, 400_000_100, 1)
                .range(MAIN, "ProfilerStep#1", 1000, 6000)
                .range(MAIN, "forward", 1100, 2000)
                .range(MAIN, "layers.0", 1110, 1900)
                .range(MAIN, "ln1", 1110, 1200)
                .launch(MAIN, 1120, 1130, 2)
                .kernel(7, "void at::native::reduce_kernel<float>(float*)", 2_000, 3_002_000, 2)
                .range(MAIN, "attention.scores", 1300, 1400)
                .op(MAIN, "aten::bmm", 1305, 1390, 7, 0)
                .launch(MAIN, 1310, 1320, 3)
                .kernel(7, "sgemm", 4_000_000, 9_000_000, 3)
                .range(MAIN, "attention.softmax", 1500, 1600)
                .launch(MAIN, 1510, 1520, 4)
                .kernel(7, "void softmax_warp_forward<float>(float*)", 9_000_000, 11_000_000, 4)
                .range(MAIN, "backward", 2100, 5000)
                .op(ENGINE, "autograd::engine::evaluate_function: BmmBackward0", 2200, 2400, 7, 1)
                .launch(ENGINE, 2210, 2220, 5)
                .kernel(7, "sgemm", 12_000_000, 13_000_000, 5)
                .launch(ENGINE, 2230, 2240, 6)
                .kernel(8, "sgemm", 12_500_000, 14_001_000, 6)
                .read();
    }

    private static StepProfile profile() {
        Samples one = Samples.once(Metric.ms("stopwatch"), 15);
        Samples other = Samples.once(Metric.ms("stopwatch-profiled"), 16);
        return new StepProfile(Pass.FORWARD_BACKWARD, one, other, new Profile(trace()), List.of());
    }

    private static Map<String, Double> numbers(StepProfile profile) {
        return profile.samples().stream()
                .collect(Collectors.toMap(
                        s -> s.metric().name(), s -> s.values().get(s.values().size() - 1)));
    }

    @Test
    void kernelsOfTheCountedStepsAreSummedByPhaseKindAndRange() {
        Map<String, Double> numbers = numbers(profile());
        assertEquals(3.0 + 5 + 2 + 1 + 1.501, numbers.get("total-kernels"), "without the warm-up step");
        assertEquals(10.0, numbers.get("forward-kernels"));
        assertEquals(2.501, numbers.get("backward-kernels"));
        assertEquals(7.501, numbers.get("total-matmul"));
        assertEquals(5.0, numbers.get("forward-matmul"));
        assertEquals(3.0, numbers.get("forward-reduction"));
        assertEquals(3.0, numbers.get("forward-normalization"));
        assertEquals(5.0, numbers.get("forward-attention-scores"));
        assertEquals(5.0, numbers.get("forward-attention-scores-matmul"));
        assertEquals(5.0, numbers.get("forward-attention-matmul"));
        assertEquals(2.0, numbers.get("forward-attention-softmax"));
        assertEquals(2.501, numbers.get("backward-attention-matmul"), "gradients of what ran in attention.scores");
        assertEquals(3.0, numbers.get("forward-launches"));
        assertEquals(5.0, numbers.get("total-launches"));
    }

    @Test
    void aStepEndsWithItsLastKernelAndConcurrentKernelsCountOnceAsBusy() {
        Map<String, Double> numbers = numbers(profile());
        assertEquals((14_001_000 - 1000) / 1e6, numbers.get("profiled"));
        assertEquals((3_000_000 + 7_000_000 + 2_001_000) / 1e6, numbers.get("busy"), "concurrent kernels count once");
        assertEquals(0.0009, numbers.get("forward-host"));
    }

    @Test
    void theLastStepHasOnlyItsOwnEventsAndKernels() {
        Profile last = profile().lastStep();
        assertEquals(12_501_000, last.kernels().total());
        assertEquals(1, last.steps());
        assertEquals(
                List.of("forward", "layers.0", "attention.softmax"),
                last.kernels().of(KernelKind.SOFTMAX).launches().get(0).range());
        Trace trace = trace();
        assertThrows(IllegalArgumentException.class, () -> trace.step(2));
    }

    @Test
    void theKernelTableHasEachPhaseAndBothPassesLongestFirst() {
        Table table = ProfileWorkload.kernels(profile());
        assertEquals(
                List.of(
                        "forward",
                        "forward",
                        "forward",
                        "backward",
                        "forward-backward",
                        "forward-backward",
                        "forward-backward"),
                table.stringColumn("phase").asList());
        assertEquals(
                List.of(
                        "sgemm",
                        "reduce_kernel",
                        "softmax_warp_forward",
                        "sgemm",
                        "sgemm",
                        "reduce_kernel",
                        "softmax_warp_forward"),
                table.stringColumn("kernel").asList());
        assertEquals(3.0, table.doubleColumn("launches").get(4));
        assertEquals(7.501, table.doubleColumn("time [ms]").get(4), 1e-12);
        assertEquals(50.0, table.doubleColumn("share [%]").get(0), 1e-12);
    }

    @Test
    void onTheCpuThereAreTimesAndFlopAndTraceAgreesWithWallTime() {
        TransformerConfig config = TransformerConfig.builder()
                .vocabSize(50)
                .contextLength(16)
                .dModel(32)
                .numLayers(2)
                .numHeads(4)
                .dFf(64)
                .build();
        try (var model = new TransformerLM(config, Device.cpu())) {
            StepProfile profile = StepProfile.of(model, 3, Precision.FP32, Pass.STEP, 2, 4);
            assertEquals(4, profile.steps());
            Map<String, Samples> samples = profile.samples().stream()
                    .collect(Collectors.toMap(s -> s.metric().name(), s -> s));
            assertTrue(samples.keySet().containsAll(List.of("forward-host", "backward-host", "optimizer-host")));
            assertTrue(samples.keySet().stream().noneMatch(name -> name.endsWith("-kernels")), "no GPU was used");
            for (int i = 0; i < 4; i++) {
                double clock = samples.get("stopwatch-profiled").values().get(i);
                double trace = samples.get("profiled").values().get(i);
                assertTrue(trace > 0 && trace <= clock, trace + " ms in the trace, " + clock + " by the stopwatch");
            }
            // 2 layers: q, k, v, output 4·32²; SwiGLU 3·32·64; head 50·32; 48 tokens; scores and values 2·2·48·16·32
            // each layer
            double matmulFlop =
                    2 * (2 * 48.0 * (4 * 32 * 32 + 3 * 32 * 64)) + 2 * 48.0 * 50 * 32 + 2 * (4 * 48.0 * 16 * 32);
            assertEquals(matmulFlop, samples.get("forward-matmul-flop").values().get(0));
            assertEquals(
                    2 * 4 * 48.0 * 16 * 32,
                    samples.get("attention-matmul-flop").values().get(0));
            assertEquals(
                    2 * 5 * 48.0 * 16 * 4,
                    samples.get("attention-softmax-flop").values().get(0));
        }
    }
}
