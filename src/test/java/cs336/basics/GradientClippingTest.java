package cs336.basics;

import static cs336.basics.Reference.FLOAT32_ULP;
import static cs336.basics.Reference.FLOAT64;
import static cs336.basics.Reference.assertClose;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.ScopedTest;
import cs336.torch.TensorJson;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class GradientClippingTest extends ScopedTest {
    private final TensorJson reference = Reference.read("parts.json").get("clip");

    private Map<String, Tensor> parametersWithGradients(DType dtype) {
        Map<String, Tensor> gradients = reference.get("gradients").tensors();
        Map<String, Tensor> parameters = AdamWTest.leaves(gradients, dtype);
        AdamWTest.setGradients(parameters, gradients);
        return parameters;
    }

    @Test
    void aSubsetIsClippedByTheNormOfAllGradients() {
        Map<String, Tensor> parameters = parametersWithGradients(DType.FLOAT64);
        double maxNorm = reference.get("max_norm").number();
        Tensor norm = GradientClipping.norm(parameters.values());
        var subset = parameters.entrySet().iterator().next();
        Map<String, Tensor> before = AdamWTest.leaves(reference.get("gradients").tensors(), DType.FLOAT64);
        GradientClipping.clip(List.of(subset.getValue()), norm, maxNorm);
        parameters.forEach((name, parameter) -> assertClose(
                FLOAT64,
                name,
                (name.equals(subset.getKey()) ? reference.get("clipped").tensors() : before).get(name),
                parameter.grad()));
    }

    @ParameterizedTest
    @EnumSource(names = {"FLOAT16", "BFLOAT16"})
    void aNormAboveTheRangeOfFp16IsComputed(DType dtype) {
        Tensor parameter = torch.zeros(10_000).to(dtype.scalarType()).requires_grad_(true);
        parameter
                .mutable_grad()
                .put(torch.full_like(parameter, new Scalar(4096))); // norm 409,600; the largest fp16 number is 65,504
        double norm = GradientClipping.clipByGlobalNorm(List.of(parameter), 100).item_double();
        assertEquals(409_600, norm, 1);
        assertEquals(1, parameter.grad().min().item_double(), dtype == DType.FLOAT16 ? 1e-3 : 8e-3);
        assertEquals(1, parameter.grad().max().item_double(), dtype == DType.FLOAT16 ? 1e-3 : 8e-3);
    }

    @ParameterizedTest
    @EnumSource(names = {"FLOAT64", "FLOAT32"})
    void normAndClippedGradientsAreTheReferences(DType dtype) {
        Map<String, Tensor> parameters = parametersWithGradients(dtype);
        double norm = GradientClipping.clipByGlobalNorm(
                        parameters.values(), reference.get("max_norm").number())
                .item_double();
        double tolerance = dtype == DType.FLOAT64 ? FLOAT64 : 4 * FLOAT32_ULP;
        double expected = reference.get("norm").number();
        assertEquals(expected, norm, tolerance * expected);
        reference
                .get("clipped")
                .tensors()
                .forEach((name, clipped) -> assertClose(
                        tolerance, name, clipped, parameters.get(name).grad()));
    }

    @Test
    void gradientsUpToTheLimitAreUnchangedBitForBit() {
        Map<String, Tensor> parameters = parametersWithGradients(DType.FLOAT64);
        double norm =
                GradientClipping.clipByGlobalNorm(parameters.values(), 1e6).item_double();
        GradientClipping.clipByGlobalNorm(parameters.values(), norm);
        reference
                .get("gradients")
                .tensors()
                .forEach((name, gradient) ->
                        assertTrue(torch.equal(gradient, parameters.get(name).grad()), name));
    }

    @Test
    void aNormThatIsNaNMakesEveryGradientNaN() {
        Tensor w = torch.zeros(2).set_requires_grad(true);
        w.mutable_grad().put(Tensor.create(300f, 400f));
        GradientClipping.clip(List.of(w), Tensor.create(Float.NaN).sum(), 1);
        assertTrue(w.grad().isnan().all().item_bool());
        assertThrows(IllegalArgumentException.class, () -> GradientClipping.factor(torch.ones(1), 1));
    }

    @Test
    void parametersWithoutGradientAreIgnored() {
        Tensor without = torch.ones(3).set_requires_grad(true);
        Tensor with = torch.zeros(2).set_requires_grad(true);
        with.mutable_grad().put(Tensor.create(3f, 4f));
        assertEquals(
                5, GradientClipping.clipByGlobalNorm(List.of(without, with), 1).item_float());
        assertEquals(1, with.grad().norm().item_float(), 1e-6);
        assertEquals(0, GradientClipping.clipByGlobalNorm(List.of(without), 1).item_float());
    }

    @Test
    void maxNormMustBePositive() {
        for (double maxNorm : new double[] {0, -1, Double.NaN}) {
            var error = assertThrows(
                    IllegalArgumentException.class, () -> GradientClipping.clipByGlobalNorm(List.of(), maxNorm));
            assertEquals("maxNorm must be above 0, not " + maxNorm, error.getMessage());
        }
    }
}
