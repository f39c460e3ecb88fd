package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cs336.basics.AdamW;
import cs336.basics.AdamWSettings;
import cs336.basics.Batches;
import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Precision;
import cs336.compile.TrainingRuns.Loop;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.KernelLog;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.NoGradGuard;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch_cuda;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Tag("gpu")
class CompiledStepGpuTest {
    private static TransformerConfig config(ModelEdition edition, String norm, String attention) {
        return TransformerConfig.builder()
                .edition(edition)
                .vocabSize(1_000)
                .contextLength(128)
                .dModel(128)
                .numLayers(2)
                .numHeads(4)
                .dFf(256)
                .normalization(norm)
                .attention(attention)
                .build();
    }

    @ParameterizedTest
    @CsvSource({
        "SPRING_2025, fp32, rmsnorm, plain",
        "SPRING_2025, bf16, rmsnorm, plain",
        "SPRING_2025, fp16, rmsnorm, plain",
        "SPRING_2025, tf32, layernorm, sdpa",
        "SPRING_2025, bf16, rmsnorm-fused, flash-deterministic",
        "SPRING_2024, bf16, layernorm, plain"
    })
    void replayedStepsEqualThePlainLoopBitForBit(ModelEdition edition, String dtype, String norm, String attention) {
        TransformerConfig config = config(edition, norm, attention);
        Precision precision = Precision.parse(dtype);
        List<Integer> contexts = Collections.nCopies(20, 128);
        TrainingRuns.LossesAndParameters plain =
                TrainingRuns.train(config, Device.cuda(0), precision, 0.5, Loop.PLAIN, contexts);
        TrainingRuns.LossesAndParameters graphed =
                TrainingRuns.train(config, Device.cuda(0), precision, 0.5, Loop.GRAPHED, contexts);
        assertArrayEquals(plain.losses(), graphed.losses());
        assertArrayEquals(plain.parameters(), graphed.parameters());
    }

    @ParameterizedTest
    @CsvSource({
        "SPRING_2025, fp32, rmsnorm, plain, 1e-4",
        "SPRING_2025, tf32, rmsnorm, flash-deterministic, 1e-2",
        "SPRING_2025, bf16, rmsnorm, plain, 2e-2",
        "SPRING_2025, bf16, rmsnorm, flash-deterministic, 2e-2",
        "SPRING_2025, fp16, rmsnorm, plain, 2e-2",
        "SPRING_2025, bf16, rmsnorm-fused, flash-deterministic, 2e-2",
        "SPRING_2024, fp32, rmsnorm, plain, 1e-4",
        "SPRING_2024, bf16, layernorm, sdpa, 2e-2"
    })
    void lossesOfAHundredFusedStepsAgreeWithThePlainLoop(
            ModelEdition edition, String dtype, String norm, String attention, double bound) {
        TransformerConfig config = config(edition, norm, attention);
        Precision precision = Precision.parse(dtype);
        List<Integer> contexts = Collections.nCopies(100, 128);
        double[] plain = TrainingRuns.train(config, Device.cuda(0), precision, 0.5, Loop.PLAIN, contexts)
                .losses();
        double[] fused = TrainingRuns.train(config, Device.cuda(0), precision, 0.5, Loop.FUSED, contexts)
                .losses();
        assertArrayEquals(plain, fused, bound);
    }

    private static TransformerConfig wideConfig() {
        return TransformerConfig.builder()
                .edition(ModelEdition.SPRING_2025)
                .vocabSize(1_000)
                .contextLength(512)
                .dModel(1_024)
                .numLayers(2)
                .numHeads(16)
                .dFf(4_096)
                .build();
    }

    @Test
    void aForwardPassInTf32AgreesWithThePlainModel() {
        Device device = Device.cuda(0);
        assumeTrue(Gpu.of(device).runsHopperKernels(), "needs a Hopper GPU");
        TransformerConfig config = wideConfig();
        Torch.allowTf32(true);
        try (var scope = MemoryScope.open();
                var noGradients = new NoGradGuard();
                var model = new TransformerLM(config, device);
                var compiled = Compiled.of(in -> new Tensor[] {model.forward(in[0])})) {
            Tensor tokens =
                    Batches.random(config.vocabSize(), 4, 512, device, 0).next().inputs();
            Tensor plain = model.forward(tokens);
            Tensor error = compiled.apply(tokens)[0].sub(plain);
            assertTrue(error.norm().item_double() < 5e-3 * plain.norm().item_double());
            assertTrue(compiled.explain().contains("gemm_tf32_swiglu"), compiled.explain());
        } finally {
            Torch.allowTf32(false);
        }
    }

    /** Matrix multiplications are large enough for {@code gemm_fp32} and, with TF32 only, {@code gemm_tf32}. */
    @ParameterizedTest
    @CsvSource({"FP32, 1e-4", "TF32, 1e-2"})
    void lossesOfAWideModelAgreeWithThePlainLoop(Precision precision, double bound) {
        assumeTrue(Gpu.of(Device.cuda(0)).runsHopperKernels(), "needs a Hopper GPU");
        TransformerConfig config = wideConfig();
        List<Integer> contexts = Collections.nCopies(30, 512);
        double[] plain = TrainingRuns.train(config, Device.cuda(0), precision, 0.5, Loop.PLAIN, contexts)
                .losses();
        try (var log = KernelLog.open()) {
            double[] fused = TrainingRuns.train(config, Device.cuda(0), precision, 0.5, Loop.FUSED, contexts)
                    .losses();
            Set<String> kernels =
                    log.entries().stream().map(KernelLog.KernelLogEntry::name).collect(Collectors.toSet());
            assertTrue(kernels.contains("gemm_fp32"), "kernels: " + kernels);
            assertEquals(precision == Precision.TF32, kernels.contains("gemm_tf32"), "kernels: " + kernels);
            assertArrayEquals(plain, fused, bound);
        }
    }

    @ParameterizedTest
    @CsvSource({"SPRING_2025, fp32", "SPRING_2025, bf16", "SPRING_2025, fp16", "SPRING_2024, bf16"})
    void aFusedStepWithPlainAttentionStoresNoScores(ModelEdition edition, String dtype) {
        Device device = Device.cuda(0);
        TransformerConfig config = config(edition, "rmsnorm", "plain");
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(config, device);
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-3));
                var step = CompiledStep.of(model, optimizer, Precision.parse(dtype))
                        .fuse()) {
            var batch = Batches.random(config.vocabSize(), 2, 128, device, 0).next();
            step.run(batch.inputs(), batch.targets());
            String text = step.explain();
            String fused = text.substring(text.indexOf("fused:"));
            assertTrue(fused.contains("flash_attention_backward"), fused);
            assertTrue(!fused.contains("[2, 4, 128, 128]") && !fused.contains("[8, 128, 128]"), fused);
        }
    }

    @Test
    void eachShapeOfInputHasAGraphOfItsOwn() {
        TransformerConfig config = config(ModelEdition.SPRING_2025, "rmsnorm", "plain");
        List<Integer> contexts =
                List.of(64, 64, 128, 64, 128, 64, 64, 128, 128, 64, 96, 128, 64, 96, 128, 64, 32, 128, 64);
        TrainingRuns.LossesAndParameters plain =
                TrainingRuns.train(config, Device.cuda(0), Precision.BF16, 1, Loop.PLAIN, contexts);
        TrainingRuns.LossesAndParameters graphed =
                TrainingRuns.train(config, Device.cuda(0), Precision.BF16, 1, Loop.GRAPHED, contexts);
        assertArrayEquals(plain.losses(), graphed.losses());
        assertArrayEquals(plain.parameters(), graphed.parameters());
    }

    @Test
    void memoryStaysFlatOverAThousandReplaysAndIsFreedAtTheEnd() {
        replay(10); // cuBLAS allocates its workspace, which is not freed
        long before = allocated();
        replay(1_000);
        assertTrue(allocated() <= before, "left " + (allocated() - before) + " bytes");
    }

    private static void replay(int replays) {
        Device device = Device.cuda(0);
        TransformerConfig config = config(ModelEdition.SPRING_2025, "rmsnorm", "plain");
        try (var model = new TransformerLM(config, device);
                var optimizer = new AdamW(model.namedParameters(), AdamWSettings.of(1e-3));
                var step = CompiledStep.of(model, optimizer, Precision.BF16)) {
            try (var scope = MemoryScope.open()) {
                var batch =
                        Batches.random(config.vocabSize(), 2, 128, device, 0).next();
                for (int i = 0; i < 10; i++) {
                    step.run(batch.inputs(), batch.targets());
                }
                device.synchronize();
                long warm = allocated();
                for (int i = 0; i < replays; i++) {
                    step.run(batch.inputs(), batch.targets());
                }
                device.synchronize();
                assertTrue(allocated() <= warm, "grew from " + warm + " to " + allocated() + " bytes");
            }
        }
    }

    private static long allocated() {
        return torch_cuda
                .getAllocator()
                .getDeviceStats((byte) 0)
                .allocated_bytes()
                .current();
    }
}
