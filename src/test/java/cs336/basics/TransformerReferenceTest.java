package cs336.basics;

import static cs336.basics.Reference.FLOAT32_ULP;
import static cs336.basics.Reference.FLOAT64;
import static cs336.basics.Reference.assertAllClose;
import static cs336.basics.Reference.assertClose;
import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.TensorJson;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Compares tiny 2024 and 2025 models with float64 reference vectors that were computed without this project's code. */
class TransformerReferenceTest extends ScopedTest {
    @ParameterizedTest(name = "{0} in {1}")
    @CsvSource({"2025, FLOAT64", "2024, FLOAT64", "2025, FLOAT32", "2024, FLOAT32"})
    void logitsLossAndGradientsMatchTheReference(int year, DType dtype) {
        TensorJson reference = Reference.read("tiny-" + year + ".json");
        try (TransformerLM model = model(reference, dtype)) {
            Tensor logits = model.forward(reference.get("ids").tensor());
            Tensor loss = Losses.crossEntropy(logits, reference.get("targets").tensor());
            loss.backward();
            double tolerance = tolerance(dtype);
            assertEquals(dtype, DType.of(logits));
            assertClose(tolerance, "logits", reference.get("logits").tensor(), logits);
            assertClose(tolerance, "loss", reference.get("loss").tensor(), loss);
            assertAllClose(tolerance, "gradient of", reference.get("gradients").tensors(), gradients(model));
        }
    }

    @ParameterizedTest(name = "{0} in {1}, {2}")
    @CsvSource({
        "2025, FLOAT64, DECAY_AFTER",
        "2025, FLOAT64, DECAY_BEFORE",
        "2025, FLOAT64, TORCH",
        "2024, FLOAT64, DECAY_AFTER",
        "2024, FLOAT64, TORCH",
        "2025, FLOAT32, DECAY_AFTER",
        "2025, FLOAT32, DECAY_BEFORE",
        "2025, FLOAT32, TORCH",
        "2024, FLOAT32, DECAY_AFTER",
        "2024, FLOAT32, TORCH",
    })
    void fiveOptimizerStepsMatchTheReference(int year, DType dtype, AdamW.Order order) {
        TensorJson reference = Reference.read("tiny-" + year + ".json");
        TensorJson sequence = reference.get("adamw").get(order.name().toLowerCase());
        TensorJson options = sequence.get("options");
        double tolerance = tolerance(dtype);
        Tensor ids = reference.get("ids").tensor();
        Tensor targets = reference.get("targets").tensor();
        try (TransformerLM model = model(reference, dtype)) {
            var optimizer = new AdamW(model.namedParameters(), AdamWTest.options(options, order));
            List<TensorJson> after = sequence.get("parameters_after_step").list();
            assertEquals(5, after.size());
            for (int t = 0; t < after.size(); t++) {
                optimizer.zeroGrad();
                Tensor loss = Losses.crossEntropy(model.forward(ids), targets);
                loss.backward();
                assertClose(
                        tolerance,
                        "loss of step " + t,
                        sequence.get("losses").tensor().select(0, t),
                        loss);
                if (options.has("max_norm")) {
                    Tensor norm = GradientClipping.clipByGlobalNorm(
                            model.parameters(), options.get("max_norm").number());
                    assertClose(
                            tolerance,
                            "gradient norm of step " + t,
                            sequence.get("gradient_norms").tensor().select(0, t),
                            norm);
                }
                optimizer.step();
                assertAllClose(tolerance, "after step " + t, after.get(t).tensors(), model.namedParameters());
            }
        }
    }

    private static double tolerance(DType dtype) {
        return dtype == DType.FLOAT64 ? FLOAT64 : 8 * FLOAT32_ULP;
    }

    private static TransformerLM model(TensorJson reference, DType dtype) {
        TensorJson c = reference.get("config");
        TransformerConfig config = TransformerConfig.builder()
                .edition(ModelEdition.ofYear((int) reference.get("form").integer()))
                .vocabSize((int) c.get("vocab_size").integer())
                .contextLength((int) c.get("context_length").integer())
                .dModel((int) c.get("d_model").integer())
                .numLayers((int) c.get("num_layers").integer())
                .numHeads((int) c.get("num_heads").integer())
                .dFf((int) c.get("d_ff").integer())
                .build();
        var model = new TransformerLM(config, Device.cpu(), dtype);
        Map<String, Tensor> initial = reference.get("parameters").tensors();
        assertEquals(initial.keySet(), model.namedParameters().keySet());
        try (var noGrad = NoGrad.open()) {
            initial.forEach((name, tensor) -> model.namedParameters().get(name).copy_(tensor));
        }
        return model;
    }

    private static Map<String, Tensor> gradients(TransformerLM model) {
        Map<String, Tensor> gradients = new LinkedHashMap<>();
        model.namedParameters().forEach((name, parameter) -> gradients.put(name, parameter.grad()));
        return gradients;
    }
}
