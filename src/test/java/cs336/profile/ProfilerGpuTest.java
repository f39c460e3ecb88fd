package cs336.profile;

import static cs336.profile.TraceText.deviceTime;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Benchmark;
import cs336.bench.Pass;
import cs336.bench.Stopwatch;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("gpu")
class ProfilerGpuTest {
    private static final int STEPS = 3;

    private Device device;

    @BeforeEach
    void open() {
        device = Device.cuda(0);
        Torch.seed(0);
        Torch.allowTf32(false);
    }

    @AfterEach
    void forbidTf32() {
        Torch.allowTf32(false);
    }

    private Profile trainingSteps(String normalization) {
        TransformerConfig config = TransformerConfig.builder()
                .vocabSize(1000)
                .contextLength(128)
                .dModel(256)
                .numLayers(2)
                .numHeads(4)
                .dFf(1024)
                .normalization(normalization)
                .build();
        try (var model = new TransformerLM(config, device);
                var step = Benchmark.of(model).step(Pass.STEP)) {
            for (int i = 0; i < STEPS; i++) {
                step.run();
            }
            try (var profiler = Profiler.start()) {
                for (int i = 0; i < STEPS; i++) {
                    step.run();
                    profiler.step();
                }
                return profiler.stop();
            }
        }
    }

    private static KernelTable inside(KernelTable kernels, String range) {
        return kernels.filter(kernel -> kernel.range().contains(range));
    }

    private static KernelTable gradientOf(KernelTable kernels, String range) {
        return kernels.filter(kernel -> kernel.forwardRange().contains(range));
    }

    @Test
    void kernelTimeInsideARangeIsTheSumOverItsLaunchesByCorrelation() {
        Trace trace = trainingSteps("rmsnorm").trace();
        KernelTable kernels = KernelTable.of(trace);
        assertEquals(deviceTime(trace), kernels.total());
        Map<Long, Long> durations = new HashMap<>();
        for (DeviceEvent event : trace.work()) {
            durations.merge(event.args().correlation(), event.duration(), Long::sum);
        }
        for (String name : List.of("forward", "attention.softmax", "layers.1", "lm_head", "loss", "optimizer")) {
            long sum = 0;
            for (HostEvent range : trace.ranges()) {
                if (!range.name().equals(name)) {
                    continue;
                }
                for (HostEvent call : trace.host()) {
                    boolean inside = call.kind() == HostEventKind.CALL
                            && call.thread().equals(range.thread())
                            && call.start() >= range.start()
                            && call.end() <= range.end();
                    if (inside) {
                        sum += durations.getOrDefault(call.args().correlation(), 0L);
                    }
                }
            }
            assertTrue(sum > 0, name);
            assertEquals(sum, inside(kernels, name).total(), name);
        }
    }

    @Test
    void theOperatorThatAKernelNamesContainsItsLaunch() {
        int named = 0;
        for (DeviceEvent event : trainingSteps("rmsnorm").trace().work()) {
            if (event.args().external() == HostEvent.NONE) {
                continue;
            }
            assertEquals(event.args().external(), event.operator().args().external(), event::toString);
            named++;
        }
        assertTrue(named > 100, named + " kernels name their operator");
    }

    @Test
    void everyKernelOfATrainingStepBelongsToOnePhase() {
        Profile profile = trainingSteps("rmsnorm");
        assertEquals(STEPS, profile.steps());
        KernelTable kernels = profile.kernels();
        long phases = inside(kernels, "forward").total()
                + inside(kernels, "backward").total()
                + inside(kernels, "optimizer").total();
        assertEquals(kernels.total(), phases, "including backward kernels, launched by an engine thread");
        for (int i = 0; i < STEPS; i++) {
            assertEquals(
                    kernels.launches().size() / STEPS,
                    kernels.step(i).launches().size(),
                    "launches of step " + i);
        }
        assertTrue(
                gradientOf(kernels, "attention.softmax").of(KernelKind.SOFTMAX).total() > 0);
        assertTrue(
                kernels.filter(kernel -> !kernel.forwardRange().isEmpty()).total()
                        > 0.9 * inside(kernels, "backward").total(),
                "most of the backward pass is some layer's gradient");
    }

    @Test
    void ourKernelsAreRecognizedAndHaveTheirLayerInTheBackwardPass() {
        KernelTable ours = trainingSteps("rmsnorm-fused").kernels().of(KernelKind.OURS);
        int norms = 2 * 2 + 1;
        Map<String, Long> launches = ours.rows().stream()
                .collect(Collectors.toMap(KernelTable.KernelRow::name, KernelTable.KernelRow::launches));
        assertEquals(
                Map.of(
                        "rmsnorm_forward", (long) STEPS * norms,
                        "rmsnorm_backward", (long) STEPS * norms,
                        "column_sum", (long) STEPS * norms,
                        "adamw", (long) STEPS),
                launches);
        assertEquals(
                STEPS * 2 * norms,
                gradientOf(ours, "TransformerLM").launches().size(),
                "backward and the sum of its columns");
        assertEquals(STEPS * 2, gradientOf(ours, "ln_final").launches().size());
    }

    /** In a GPU-bound loop the busy time is the time between CUDA events except for gaps between kernels. */
    @Test
    void busyTimeAgreesWithCudaEventsWithinFivePercent() {
        try (var scope = MemoryScope.open()) {
            Tensor a = torch.randn(new long[] {4096, 4096}, device.options(DType.FLOAT32));
            Runnable step = () -> {
                try (var inner = MemoryScope.open()) {
                    torch.softmax(a.matmul(a).add(a), -1);
                }
            };
            int runs = 10;
            double stopwatch = Stopwatch.on(device)
                    .warmup(5)
                    .steps(runs)
                    .time("step", step)
                    .events()
                    .summary()
                    .median();
            try (var profiler = Profiler.start()) {
                for (int i = 0; i < runs; i++) {
                    step.run();
                }
                double busy = profiler.stop().kernels().busy() / 1e6 / runs;
                assertEquals(stopwatch, busy, 0.05 * stopwatch, "milliseconds per step");
            }
        }
    }

    /** Returns the name of the kernel of a GEMM of this dtype. */
    private String gemm(DType type) {
        try (var scope = MemoryScope.open()) {
            Tensor a = torch.randn(new long[] {2048, 2048}, device.options(type));
            a.matmul(a);
            try (var profiler = Profiler.start()) {
                a.matmul(a);
                KernelTable gemms = profiler.stop().kernels().of(KernelKind.MATMUL);
                return gemms.rows().get(0).name();
            }
        }
    }

    @Test
    void namesOfGemmKernelsShowTheirDtype() {
        String fp32 = gemm(DType.FLOAT32);
        String bf16 = gemm(DType.BFLOAT16);
        String fp16 = gemm(DType.FLOAT16);
        Torch.allowTf32(true);
        String tf32 = gemm(DType.FLOAT32);
        assertTrue(fp32.matches(".*(sgemm|f32f32_f32f32|_sss_).*") && !fp32.contains("tensorop"), fp32);
        assertTrue(tf32.contains("tf32"), tf32);
        assertTrue(bf16.matches(".*(bf16|_tst_).*"), bf16);
        assertTrue(fp16.matches(".*(_hsh_|_f16|_h16816|_h884).*"), fp16);
    }
}
