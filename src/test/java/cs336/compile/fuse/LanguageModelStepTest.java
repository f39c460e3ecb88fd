package cs336.compile.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.bench.Precision;
import cs336.compile.program.Interpreter;
import cs336.compile.program.Operation;
import cs336.compile.program.Operator;
import cs336.compile.program.Program;
import cs336.kernels.runtime.Cubin;
import cs336.kernels.runtime.KernelCompiler;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.KernelVariant;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

class LanguageModelStepTest {
    /** The operators that no rule lowers: matrix multiplications, attention and embeddings. */
    private static final Set<String> NOT_FUSED = Set.of(
            "mm",
            "bmm",
            "embedding",
            "embedding_dense_backward",
            "arange",
            "clone", // of the complex rotations
            "flash_attention",
            "flash_attention_backward",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention_for_cpu_backward");

    private static Stream<TransformerConfig> configs() {
        return LanguageModelStep.configs(40, 6, 16, 24);
    }

    @ParameterizedTest
    @MethodSource("configs")
    void recordedStepsAreReplayedBitForBit(TransformerConfig config) {
        for (Precision precision : List.of(Precision.FP32, Precision.BF16)) {
            try (var scope = MemoryScope.open();
                    var step = new LanguageModelStep(config, precision, Device.cpu())) {
                Program recorded = step.record();
                List<Expected> expected = expected(step);
                assertErrors(expected, recorded, 0);
                assertErrors(expected, FusionPasses.simplify(recorded), 0);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("configs")
    void fusedStepsAgreeWithPlainOnesUpToRounding(TransformerConfig config) {
        for (Precision precision : List.of(Precision.FP32, Precision.BF16)) {
            try (var scope = MemoryScope.open();
                    var step = new LanguageModelStep(config, precision, Device.cpu());
                    var inFp32 = new LanguageModelStep(config, Precision.FP32, Device.cpu())) {
                // One rounding to bf16 is at most 2^-8 of a number.
                double bound = precision == Precision.FP32 ? 5e-6 : 4e-3;
                Program recorded = step.record();
                List<Expected> expected = expected(step);
                Tensor[] exact = inFp32.apply(expected.get(0).batch());
                Map<String, Program> stages = new LinkedHashMap<>(FusionPasses.stages(recorded, Device.cpu()));
                stages.put("not merged", FusionPasses.fusePrepared(stages.get("simplified"), Device.cpu()));
                stages.put("all", FusionPasses.fuse(recorded, Device.cpu()));
                stages.remove("recorded");
                for (String stage : stages.keySet()) {
                    // A merged matrix multiplication rounds the sum of its terms once.
                    boolean roundsElsewhere = config.attention().equals("plain")
                            || List.of("merged", "fused", "all").contains(stage);
                    if (roundsElsewhere && precision == Precision.BF16) {
                        Tensor[] got = new Interpreter(stages.get(stage))
                                .run(expected.get(0).batch());
                        LanguageModelStep.assertNoLessAccurate(
                                exact, expected.get(0).results(), got, stage);
                    } else {
                        assertErrors(expected, stages.get(stage), bound);
                    }
                }
                Set<String> left = stages.get("fused").operations().stream()
                        .map(Operation::operator)
                        .filter(operator -> !(operator instanceof FusedKernel))
                        .map(Operator::toString)
                        .filter(name -> !NOT_FUSED.contains(name))
                        .collect(Collectors.toCollection(TreeSet::new));
                assertEquals(Set.of(), left);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("configs")
    void castsThatTheOptimizerTakesOverDoNotChangeTheResults(TransformerConfig config) {
        try (var scope = MemoryScope.open();
                var step = new LanguageModelStep(config, Precision.BF16, Device.cpu())) {
            Program recorded = step.record();
            Program fused = FusionPasses.fuse(recorded, Device.cpu());
            Program withoutCasts = FusionPasses.fuse(recorded, Device.cpu(), step.masterWeights());
            Tensor[] batch = step.batch();
            Tensor[] expected = new Interpreter(fused).run(batch);
            Tensor[] got = new Interpreter(withoutCasts).run(batch);
            int narrow = 0;
            for (int i = 0; i < got.length; i++) {
                narrow += DType.of(got[i]) == DType.BFLOAT16 ? 1 : 0;
                assertTrue(
                        torch.equal(expected[i], got[i].to(DType.of(expected[i]).scalarType())), "output " + i);
            }
            // Each of the two layers has seven matrices; a head that shares its weight with the embedding has none.
            int matrices = config.edition() == ModelEdition.SPRING_2024 ? 12 : 15;
            assertEquals(matrices, narrow, "narrow gradients");
            int removed = operationsInKernels(fused) - operationsInKernels(withoutCasts);
            assertTrue(removed >= 2 * matrices, removed + " casts fewer");
        }
    }

    private static Set<String> sources(Program fused) {
        return FusionPasses.kernels(fused).stream().map(GeneratedKernel::source).collect(Collectors.toSet());
    }

    private static int operationsInKernels(Program fused) {
        return FusionPasses.kernels(fused).stream()
                .mapToInt(GeneratedKernel::operations)
                .sum();
    }

    @ParameterizedTest
    @EnumSource(
            value = Precision.class,
            names = {"FP32", "BF16", "FP16"})
    void generatedKernelsCompileWithoutSpills(Precision precision) {
        LanguageModelStep.configs(1_000, 64, 128, 192)
                .filter(config -> !config.normalization().equals("rmsnorm-fused"))
                .filter(config -> !config.attention().equals("sdpa"))
                .forEach(config -> {
                    try (var step = new LanguageModelStep(config, precision, Device.cpu())) {
                        Program fused = FusionPasses.fuse(step.record(), Device.cpu());
                        sources(fused).forEach(source -> {
                            for (var architecture : List.of(KernelVariant.AMPERE, KernelVariant.HOPPER)) {
                                Cubin cubin = KernelCompiler.shared()
                                        .compile(KernelSource.of(FusedKernel.FILE, source), Map.of(), architecture);
                                assertEquals(List.of(), KernelVariant.faults(cubin), source);
                            }
                        });
                    }
                });
    }

    /** Without rotary embeddings, whose complex numbers of 128 bits cannot be recorded. */
    @Test
    void stepsInDoublePrecisionAgreeAndTheirKernelsCompile() {
        LanguageModelStep.configs(100, 16, 32, 48)
                .filter(config -> config.edition() == ModelEdition.SPRING_2024)
                .filter(config -> config.attention().equals("plain"))
                .filter(config -> !config.normalization().equals("rmsnorm-fused"))
                .forEach(config -> {
                    try (var scope = MemoryScope.open();
                            var step = new LanguageModelStep(config, Precision.FP32, Device.cpu(), DType.FLOAT64)) {
                        Program fused = FusionPasses.fuse(step.record(), Device.cpu());
                        Tensor[] batch = step.batch();
                        Tensor[] plain = step.apply(batch);
                        Tensor[] got = new Interpreter(fused).run(batch);
                        for (int i = 0; i < got.length; i++) {
                            double error = got[i].sub(plain[i]).norm().item_double();
                            double size = plain[i].norm().item_double();
                            assertTrue(error <= 1e-12 * size, config + ", output " + i + ": " + error / size);
                        }
                        sources(fused)
                                .forEach(source -> KernelCompiler.shared()
                                        .compile(
                                                KernelSource.of(FusedKernel.FILE, source),
                                                Map.of(),
                                                KernelVariant.HOPPER));
                    }
                });
    }

    /** A batch, and the loss and each gradient that a step computes from it. */
    private record Expected(Tensor[] batch, Tensor... results) {}

    private static List<Expected> expected(LanguageModelStep step) {
        return Stream.generate(step::batch)
                .limit(2)
                .map(batch -> new Expected(batch, step.apply(batch)))
                .toList();
    }

    /** Runs a program on batches and compares the loss and each gradient with those of the step. */
    private static void assertErrors(List<Expected> all, Program program, double bound) {
        var interpreter = new Interpreter(program);
        for (Expected each : all) {
            try (var scope = MemoryScope.open()) {
                Tensor[] expected = each.results();
                Tensor[] got = interpreter.run(each.batch());
                assertEquals(expected.length, got.length);
                for (int j = 0; j < got.length; j++) {
                    if (bound == 0) {
                        assertTrue(torch.equal(expected[j], got[j]), "output " + j);
                        continue;
                    }
                    double error = LanguageModelStep.relativeError(expected[j], got[j]);
                    assertTrue(
                            error <= bound,
                            "output " + j + " of " + program.outputs().get(j) + ": " + error);
                }
            }
        }
    }
}
