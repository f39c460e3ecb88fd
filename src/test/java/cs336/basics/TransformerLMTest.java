package cs336.basics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.MemoryGrowth;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import cs336.torch.Torch;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class TransformerLMTest {
    private static final int VOCAB = 50;
    private static final int CONTEXT = 16;

    private static TransformerConfig tiny(ModelEdition edition) {
        return TransformerConfig.builder()
                .edition(edition)
                .vocabSize(VOCAB)
                .contextLength(CONTEXT)
                .dModel(32)
                .numLayers(2)
                .numHeads(4)
                .dFf(48)
                .build();
    }

    private static Tensor randomIds(int batch, int context) {
        return torch.randint(VOCAB, new long[] {batch, context}, Device.cpu().options(DType.INT64));
    }

    @ParameterizedTest
    @CsvSource({"SPRING_2024, rmsnorm", "SPRING_2025, rmsnorm", "SPRING_2024, layernorm", "SPRING_2025, layernorm"})
    void parameterCountOfTheConfigurationIsThatOfTheModel(ModelEdition edition, String normalization) {
        var config = tiny(edition).withNormalization(normalization);
        try (var model = new TransformerLM(config, Device.cpu())) {
            assertEquals(config.parameterCount(), model.parameterCount());
        }
    }

    @Test
    void parametersAreNamedAsInTheCourse() {
        try (var model = new TransformerLM(tiny(ModelEdition.SPRING_2025), Device.cpu())) {
            List<String> names = List.copyOf(model.namedParameters().keySet());
            assertEquals(
                    List.of(
                            "token_embeddings.weight",
                            "layers.0.ln1.weight",
                            "layers.0.attn.q_proj.weight",
                            "layers.0.attn.k_proj.weight",
                            "layers.0.attn.v_proj.weight",
                            "layers.0.attn.output_proj.weight",
                            "layers.0.ln2.weight",
                            "layers.0.ffn.w1.weight",
                            "layers.0.ffn.w2.weight",
                            "layers.0.ffn.w3.weight"),
                    names.subList(0, 10));
            assertEquals(List.of("ln_final.weight", "lm_head.weight"), names.subList(names.size() - 2, names.size()));
        }
    }

    @Test
    void eachLayerRunsItsActionBeforeItsForwardPass() {
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(tiny(ModelEdition.SPRING_2025), Device.cpu())) {
            List<NnModule> called = new ArrayList<>();
            model.layers().forEach(layer -> layer.beforeForward(() -> called.add(layer)));
            model.forward(randomIds(1, 3));
            assertEquals(model.layers().size(), called.size());
            assertEquals(Set.copyOf(model.layers()), Set.copyOf(called));
            long own = model.layers().stream()
                    .flatMap(layer -> layer.ownParameters().stream())
                    .mapToLong(Tensor::numel)
                    .sum();
            assertEquals(model.parameterCount(), own);
        }
    }

    /** A block and an attention layer that a program creates itself compute what those of a model do. */
    @ParameterizedTest
    @EnumSource(ModelEdition.class)
    void modelsOfOnesOwnCanReuseBlocksAndAttention(ModelEdition edition) {
        var config = tiny(edition);
        Device cpu = Device.cpu();
        Attention plain = Attention.named("plain");
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(config, cpu);
                var rotary = edition == ModelEdition.SPRING_2024
                        ? null
                        : new RotaryEmbedding(config.ropeTheta(), config.headDim(), CONTEXT, cpu, DType.FLOAT32);
                var block = new TransformerBlock(config, plain, rotary, cpu, DType.FLOAT32);
                var attention = new SelfAttention(32, 4, plain, rotary, cpu, DType.FLOAT32)) {
            Tensor x = torch.randn(2, 5, 32);
            for (NnModule own : List.of(block, attention)) {
                NnModule ofModel = model.layers().stream()
                        .filter(layer -> layer.getClass() == own.getClass())
                        .findFirst()
                        .orElseThrow();
                try (var noGrad = NoGrad.open()) {
                    ofModel.namedParameters()
                            .forEach((name, weight) ->
                                    own.namedParameters().get(name).copy_(weight));
                }
                assertTrue(torch.equal(ofModel.forward(x), own.forward(x)), own.toString());
            }
            var e = assertThrows(IllegalArgumentException.class, () -> attention.forward(x.select(0, 0)));
            assertEquals("input must be [B, T, D], not of the shape [5, 32]", e.getMessage());
            e = assertThrows(
                    IllegalArgumentException.class, () -> new SelfAttention(32, 5, plain, null, cpu, DType.FLOAT32));
            assertEquals("numHeads must divide dModel 32; it is 5", e.getMessage());
        }
    }

    @Test
    void tiedHeadIsListedOnceAndGetsGradientsFromBothUses() {
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(tiny(ModelEdition.SPRING_2024), Device.cpu())) {
            Map<String, Tensor> parameters = model.namedParameters();
            assertFalse(parameters.containsKey("lm_head.weight"));
            long[] unusedToken = {0, 0, 0};
            model.forward(torch.tensor(unusedToken).view(1, 3)).sum().backward();
            Tensor gradient = parameters.get("token_embeddings.weight").grad();
            // Token 1 is not in the input, so its gradient comes from the output head.
            assertTrue(gradient.select(0, 1).abs().sum().item_float() > 0);
        }
    }

    @ParameterizedTest
    @EnumSource(ModelEdition.class)
    void noPositionAttendsToLaterOnes(ModelEdition edition) {
        Torch.seed(1);
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(tiny(edition), Device.cpu())) {
            Tensor ids = randomIds(2, CONTEXT);
            Tensor changed = ids.clone();
            changed.select(1, 10)
                    .add_(new org.bytedeco.pytorch.Scalar(1))
                    .remainder_(new org.bytedeco.pytorch.Scalar(VOCAB));
            Tensor difference =
                    model.forward(ids).sub(model.forward(changed)).abs().amax(new long[] {0, 2}, false);
            assertEquals(0.0f, difference.narrow(0, 0, 10).max().item_float());
            assertTrue(difference.narrow(0, 10, 6).min().item_float() > 0);
        }
    }

    @Test
    void initialWeightsAreNormalsTruncatedAtThreeStandardDeviations() {
        Torch.seed(2);
        try (var scope = MemoryScope.open()) {
            double std = 0.5;
            Tensor w = Initialization.truncatedNormal(std, Device.cpu(), DType.FLOAT32, 1000, 1000);
            assertTrue(w.abs().max().item_float() <= 3 * std);
            assertTrue(w.abs().max().item_float() > 2.95 * std);
            assertEquals(0, w.mean().item_float(), 0.003);
            // Variance of a standard normal truncated at ±3: 1 − 2·3·φ(3) ÷ P(|z| < 3) = 0.97334…
            assertEquals(std * Math.sqrt(0.973337), w.std(true).item_float(), 0.002);
            // Distinguishes the normal from uniform and triangular distributions of the same variance.
            double within = w.abs()
                    .lt(new org.bytedeco.pytorch.Scalar(std))
                    .to(torch.ScalarType.Float)
                    .mean()
                    .item_float();
            assertEquals(0.682689 / 0.997300, within, 0.002);
        }
    }

    @Test
    void matricesHaveInitialVarianceTwoOverInputsPlusOutputs() {
        Torch.seed(3);
        try (var scope = MemoryScope.open();
                var layer = new Linear(300, 900, Device.cpu(), DType.FLOAT32)) {
            Tensor weight = layer.namedParameters().get("weight");
            assertArrayEquals(new long[] {900, 300}, new long[] {weight.size(0), weight.size(1)});
            assertEquals(Math.sqrt(0.973337 * 2 / 1200), weight.std(true).item_float(), 3e-4);
        }
    }

    @Test
    void sameSeedGivesTheSameModel() {
        try (var scope = MemoryScope.open()) {
            Torch.seed(4);
            var first = new TransformerLM(tiny(ModelEdition.SPRING_2025), Device.cpu());
            Torch.seed(4);
            var second = new TransformerLM(tiny(ModelEdition.SPRING_2025), Device.cpu());
            Tensor ids = randomIds(2, 5);
            assertTrue(first.forward(ids).equal(second.forward(ids)));
        }
    }

    @Test
    void bf16AutocastIsCloseToFp32() {
        Torch.seed(5);
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(tiny(ModelEdition.SPRING_2025), Device.cpu())) {
            Tensor ids = randomIds(2, CONTEXT);
            Tensor exact = model.forward(ids);
            Tensor narrow;
            try (var autocast = cs336.torch.Autocast.of(Device.cpu(), DType.BFLOAT16)) {
                narrow = model.forward(ids);
            }
            double error = narrow.sub(exact).norm().item_float() / exact.norm().item_float();
            assertTrue(error > 1e-4 && error < 2e-2, "relative error " + error);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {CONTEXT + 1, 1000})
    void contextBeyondTheMaximumIsRefused(int context) {
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(tiny(ModelEdition.SPRING_2024), Device.cpu())) {
            var error = assertThrows(IllegalArgumentException.class, () -> model.forward(randomIds(1, context)));
            assertEquals("ids must have a context length of at most 16 tokens, not " + context, error.getMessage());
        }
    }

    @Test
    void idsOfAnotherTypeOrShapeAreRefused() {
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(tiny(ModelEdition.SPRING_2025), Device.cpu())) {
            assertThrows(IllegalArgumentException.class, () -> model.forward(torch.randn(2, 3)));
            assertThrows(IllegalArgumentException.class, () -> model.forward(torch.tensor(1L, 2L)));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "0, 32, 2, 4, vocabSize",
        "50, -1, 2, 4, dModel",
        "50, 32, 0, 4, numLayers",
        "50, 32, 2, 0, numHeads",
        "50, 32, 2, 5, numHeads 5 does not divide dModel 32",
        "50, 36, 2, 4, odd width 9"
    })
    void invalidSizesAreNamed(int vocab, int dModel, int layers, int heads, String named) {
        var error = assertThrows(
                IllegalArgumentException.class,
                () -> TransformerConfig.builder()
                        .vocabSize(vocab)
                        .contextLength(8)
                        .dModel(dModel)
                        .numLayers(layers)
                        .numHeads(heads)
                        .dFf(48)
                        .build());
        assertTrue(error.getMessage().contains(named), error.getMessage());
    }

    @Test
    void unknownNormalizationOrAttentionIsRefusedWithTheKnownOnes() {
        var config = tiny(ModelEdition.SPRING_2025);
        var norm = assertThrows(IllegalArgumentException.class, () -> config.withNormalization("batchnorm"));
        assertTrue(
                norm.getMessage().startsWith("normalization 'batchnorm' is unknown; known: layernorm, rmsnorm"),
                norm.getMessage());
        var attention = assertThrows(IllegalArgumentException.class, () -> config.withAttention("linear"));
        assertEquals(
                "attention 'linear' is unknown; known: flash, flash-3xtf32, flash-deterministic, flash-first, flash-mma, flash-tf32, flash-tiled, plain, plain-compiled, sdpa",
                attention.getMessage());
    }

    @ParameterizedTest
    @EnumSource(ModelEdition.class)
    void closingFreesTheParametersWithAndWithoutAnEnclosingScope(ModelEdition edition) {
        List<Tensor> parameters;
        try (var model = new TransformerLM(tiny(edition), Device.cpu())) {
            parameters = model.parameters();
        }
        parameters.forEach(parameter -> assertTrue(parameter.isNull()));
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(tiny(edition), Device.cpu())) {
            parameters = model.parameters();
        }
        parameters.forEach(parameter -> assertTrue(parameter.isNull()));
    }

    static final class TrainingSteps implements MemoryGrowth.Work {
        private final TransformerLM model = new TransformerLM(tiny(ModelEdition.SPRING_2025), Device.cpu());

        @Override
        public void step() {
            try (var scope = MemoryScope.open()) {
                model.forward(randomIds(4, CONTEXT)).sum().backward();
            }
        }
    }

    @Test
    void thousandTrainingStepsDoNotLeakMemory() throws Exception {
        MemoryGrowth.assertFlat(TrainingSteps.class, 100, 150);
    }

    @ParameterizedTest
    @CsvSource({
        "SPRING_2024, BFLOAT16, plain",
        "SPRING_2025, BFLOAT16, plain",
        "SPRING_2025, BFLOAT16, sdpa",
        "SPRING_2025, FLOAT16, plain"
    })
    void aModelWithNarrowParametersIsCloseToFp32(ModelEdition edition, DType dtype, String attention) {
        var config = tiny(edition).withAttention(attention);
        try (var scope = MemoryScope.open();
                var wide = new TransformerLM(config, Device.cpu());
                var narrow = new TransformerLM(config, Device.cpu(), dtype)) {
            narrow.load(wide.namedParameters());
            Tensor ids = randomIds(2, CONTEXT);
            Tensor logits = narrow.forward(ids);
            assertEquals(dtype, DType.of(logits));
            Tensor expected = wide.forward(ids);
            double error =
                    logits.sub(expected).norm().item_double() / expected.norm().item_double();
            assertTrue(error > 0 && error < 0.05, "relative error " + error);
            Losses.crossEntropy(logits, ids).backward();
            narrow.namedParameters().forEach((name, parameter) -> {
                assertTrue(parameter.grad().defined(), name);
                assertEquals(dtype, DType.of(parameter.grad()));
            });
            narrow.zeroGrad();
            narrow.parameters()
                    .forEach(parameter -> assertFalse(parameter.grad().defined()));
        }
    }

    @Test
    void namedSettingsReplaceThoseOfTheSmallModel() {
        TransformerConfig config = TransformerConfig.builder()
                .edition(ModelEdition.SPRING_2025)
                .vocabSize(VOCAB)
                .contextLength(CONTEXT)
                .dModel(32)
                .numLayers(2)
                .numHeads(4)
                .dFf(48)
                .build();
        assertEquals(tiny(ModelEdition.SPRING_2025), config);
        assertEquals(ModelSize.SMALL.config(), TransformerConfig.builder().build());
        assertEquals("sdpa", config.toBuilder().attention("sdpa").build().attention());
        assertEquals(
                "layernorm",
                config.toBuilder().normalization("layernorm").build().normalization());
        for (var invalid : List.of(
                config.toBuilder().eps(0),
                config.toBuilder().ropeTheta(-1),
                config.toBuilder().edition(null),
                config.toBuilder().dModel(33),
                config.toBuilder().eps(Double.NaN))) {
            assertThrows(IllegalArgumentException.class, invalid::build);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"rmsnorm", "layernorm"})
    void epsAndThetaChangeTheOutput(String normalization) {
        TransformerConfig plain = tiny(ModelEdition.SPRING_2025).withNormalization(normalization);
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(plain, Device.cpu());
                var same = new TransformerLM(
                        plain.toBuilder().eps(1e-5).ropeTheta(10_000).build(), Device.cpu());
                var eps = new TransformerLM(plain.toBuilder().eps(0.5).build(), Device.cpu());
                var theta = new TransformerLM(plain.toBuilder().ropeTheta(100).build(), Device.cpu())) {
            Tensor ids = randomIds(1, CONTEXT);
            Tensor expected = model.forward(ids);
            for (TransformerLM other : List.of(same, eps, theta)) {
                other.load(model.namedParameters());
                assertEquals(other == same, other.forward(ids).equal(expected));
            }
        }
    }

    @Test
    void loadingRefusesOtherNamesAndShapesAndThenChangesNothing() {
        try (var scope = MemoryScope.open();
                var model = new TransformerLM(tiny(ModelEdition.SPRING_2024), Device.cpu());
                var other = new TransformerLM(tiny(ModelEdition.SPRING_2025), Device.cpu())) {
            Tensor before = model.parameters().get(0).detach().clone();
            assertThrows(IllegalArgumentException.class, () -> model.load(Map.of()));
            assertThrows(IllegalArgumentException.class, () -> model.load(other.namedParameters()));
            var wrong = new java.util.LinkedHashMap<>(model.namedParameters());
            wrong.put("ln_final.weight", torch.ones(3));
            var e = assertThrows(IllegalArgumentException.class, () -> model.load(wrong));
            assertEquals("parameter ln_final.weight has the shape [32], not [3]", e.getMessage());
            assertTrue(model.parameters().get(0).equal(before));
        }
    }
}
