package cs336.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Benchmark;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.profile.KernelKind;
import cs336.profile.KernelTable;
import cs336.profile.Profiler;
import cs336.torch.Device;
import cs336.torch.Torch;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The names of the GEMM kernels of a training step, which contain the data types of cuBLAS. */
@Tag("gpu")
class MatmulKernelsGpuTest {
    /** The reduction kernels of split-K GEMMs, which are fp32 in all precisions. */
    static final Pattern SPLIT_K_REDUCTION = Pattern.compile("splitk.*reduce", Pattern.CASE_INSENSITIVE);

    @AfterEach
    void forbidTf32() {
        Torch.allowTf32(false);
    }

    static Pattern names(Precision precision) {
        return Pattern.compile(
                switch (precision) {
                    case FP32 -> "simt_sgemm|ampere_sgemm|f32f32_f32f32_f32|_sss_";
                    case TF32 -> "tf32|tensorop_s1688gemm|_s1688gemm";
                    case BF16 -> "bf16|_tst_|_tss_";
                    case FP16 -> "_hsh_|_hss_|_f16|_h16816|_h884";
                });
    }

    private static KernelTable gemmsOfAStep(Precision precision) {
        Device device = Device.cuda(0);
        TransformerConfig config = TransformerConfig.builder()
                .contextLength(256)
                .dModel(768)
                .numLayers(2)
                .numHeads(12)
                .dFf(3072)
                .build();
        try (var model = new TransformerLM(config, device);
                var step = Benchmark.of(model).precision(precision).step(Pass.STEP)) {
            step.run();
            try (var profiler = Profiler.start()) {
                step.run();
                return profiler.stop()
                        .kernels()
                        .of(KernelKind.MATMUL)
                        .filter(kernel ->
                                !SPLIT_K_REDUCTION.matcher(kernel.name()).find());
            }
        }
    }

    @ParameterizedTest
    @EnumSource(Precision.class)
    void everyGemmOfATrainingStepRunsInItsNominalPrecision(Precision precision) {
        KernelTable gemms = gemmsOfAStep(precision);
        Pattern nominal = names(precision);
        assertTrue(gemms.rows().size() > 0);
        List<String> others = gemms.rows().stream()
                .map(KernelTable.KernelRow::name)
                .filter(name -> !nominal.matcher(name).find())
                .toList();
        assertEquals(List.of(), others, "GEMMs that did not run in " + precision);
    }
}
