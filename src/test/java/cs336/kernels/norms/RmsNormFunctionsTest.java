package cs336.kernels.norms;

import static cs336.kernels.Closeness.assertClose;
import static cs336.kernels.Closeness.largest;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.basics.Normalization;
import cs336.basics.RmsNorm;
import cs336.kernels.runtime.KernelLog;
import cs336.kernels.runtime.Route;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.GradCheck;
import cs336.torch.NoGrad;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import cs336.torch.Torch;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Both autograd functions on the CPU, where they run tensor operations with hand-derived gradients. */
class RmsNormFunctionsTest extends ScopedTest {
    private static final double EPS = 1e-5;

    /** The apply method of an RMSNorm function. */
    @FunctionalInterface
    interface Norm {
        Tensor apply(Tensor x, Tensor weight, double eps);
    }

    @BeforeEach
    void open() {
        Torch.seed(1);
    }

    private static Stream<Arguments> norms() {
        Norm manual = RmsNormFunction::apply, fused = FusedRmsNorm::apply;
        return Stream.of(Arguments.of("manual", manual), Arguments.of("fused", fused));
    }

    private static Stream<Arguments> normsAndScales() {
        return norms().flatMap(norm ->
                Stream.of(1e-4, 1e-2, 1.0, 1e2, 1e4).map(scale -> Arguments.of(norm.get()[0], norm.get()[1], scale)));
    }

    private static Tensor random(double scale, DType dtype, long... shape) {
        var random = new Random(Arrays.hashCode(shape));
        double[] values = random.doubles(Arrays.stream(shape).reduce(1, (a, b) -> a * b))
                .map(u -> scale * (2 * u - 1))
                .toArray();
        return Tensors.of(values, shape).to(dtype.scalarType());
    }

    /** Compares value and gradients with the reference, which gets the inputs as rounded to their dtype. */
    private static void check(Norm norm, Tensor x, Tensor weight, Tensor dy, double relative, double absolute) {
        x.set_requires_grad(true);
        weight.set_requires_grad(true);
        Tensor y = norm.apply(x, weight, EPS);
        assertEquals(DType.of(x), DType.of(y));
        assertArrayEquals(Tensors.shape(x), Tensors.shape(y));
        Backward.of(y).with(dy).run();
        var expected = RmsNormReference.of(Tensors.toDoubles(x), Tensors.toDoubles(weight), Tensors.toDoubles(dy), EPS);
        assertClose("y", expected.y(), Tensors.toDoubles(y), relative, absolute * largest(expected.y()));
        assertClose("dx", expected.dx(), Tensors.toDoubles(x.grad()), relative, absolute * expected.dxTerm());
        assertClose("dw", expected.dw(), Tensors.toDoubles(weight.grad()), relative, absolute * largest(expected.dw()));
    }

    @ParameterizedTest(name = "{0}, scale {2}")
    @MethodSource("normsAndScales")
    void fp32ResultsAreWithinAFewRoundingErrors(String name, Norm norm, double scale) {
        check(
                norm,
                random(scale, DType.FLOAT32, 10, 20, 50),
                random(1, DType.FLOAT32, 50),
                random(1 / scale, DType.FLOAT32, 10, 20, 50),
                2e-6,
                1e-6);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("norms")
    void fp64ResultsAreExactUpToRounding(String name, Norm norm) {
        check(
                norm,
                random(1, DType.FLOAT64, 3, 7),
                random(1, DType.FLOAT64, 7),
                random(1, DType.FLOAT64, 3, 7),
                1e-13,
                1e-14);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("norms")
    void bf16ResultsAreRoundedOnceFromFp32Statistics(String name, Norm norm) {
        double roundingOfBf16 = Math.pow(2, -8);
        for (DType weightType : List.of(DType.BFLOAT16, DType.FLOAT32)) {
            check(
                    norm,
                    random(3, DType.BFLOAT16, 5, 256),
                    random(1, weightType, 256),
                    random(1, DType.BFLOAT16, 5, 256),
                    roundingOfBf16,
                    1e-5);
        }
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("norms")
    void courseTolerancesHoldAtCourseShape(String name, Norm norm) {
        Tensor x = random(1, DType.FLOAT32, 10, 20, 50), weight = random(1, DType.FLOAT32, 50);
        Tensor dy = random(1, DType.FLOAT32, 10, 20, 50);
        check(norm, x, weight, dy, 1e-4, 1e-5);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("norms")
    void oneColumnOneRowNoRowAndStridedInputWork(String name, Norm norm) {
        check(
                norm,
                random(1, DType.FLOAT32, 4, 1),
                random(1, DType.FLOAT32, 1),
                random(1, DType.FLOAT32, 4, 1),
                1e-4,
                1e-4);
        check(norm, random(1, DType.FLOAT32, 9), random(1, DType.FLOAT32, 9), random(1, DType.FLOAT32, 9), 1e-5, 1e-6);

        Tensor strided = random(1, DType.FLOAT64, 6, 5).t().detach(); // [5, 6]
        assertFalse(strided.is_contiguous());
        check(norm, strided, random(1, DType.FLOAT64, 6), random(1, DType.FLOAT64, 5, 6), 1e-12, 1e-13);

        Tensor none = random(1, DType.FLOAT32, 0, 4).set_requires_grad(true);
        Tensor weight = random(1, DType.FLOAT32, 4).set_requires_grad(true);
        Tensor y = norm.apply(none, weight, EPS);
        assertArrayEquals(new long[] {0, 4}, Tensors.shape(y));
        y.sum().backward();
        assertArrayEquals(new double[4], Tensors.toDoubles(weight.grad()));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("norms")
    void rowOfZerosHasAFiniteGradient(String name, Norm norm) {
        Tensor x = random(0, DType.FLOAT32, 2, 3);
        check(norm, x, random(1, DType.FLOAT32, 3), random(1, DType.FLOAT32, 2, 3), 1e-5, 1e-6);
        assertTrue(largest(Tensors.toDoubles(x.grad())) > 1, "1/√eps is large");
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("norms")
    void onlyNeededGradientsAreComputed(String name, Norm norm) {
        Tensor x = random(1, DType.FLOAT32, 2, 3),
                weight = random(1, DType.FLOAT32, 3).set_requires_grad(true);
        norm.apply(x, weight, EPS).sum().backward();
        assertTrue(weight.grad().defined());
        assertFalse(x.grad().defined());
        try (var noGrad = NoGrad.open()) {
            assertFalse(norm.apply(x, weight, EPS).requires_grad());
        }
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("norms")
    void badArgumentsAreNamed(String name, Norm norm) {
        Tensor x = random(1, DType.FLOAT32, 2, 3), weight = random(1, DType.FLOAT32, 3);
        assertRefused("weight must have the shape [3] for x [2, 3], not [2]", () -> norm.apply(x, x.select(1, 0), EPS));
        assertRefused("weight must have the shape [3] for x [2, 3], not [2, 3]", () -> norm.apply(x, x, EPS));
        assertRefused(
                "weight must be fp32 or of x's dtype fp32, not bf16",
                () -> norm.apply(x, weight.to(DType.BFLOAT16.scalarType()), EPS));
        assertRefused("x must be one of", () -> norm.apply(x.to(DType.INT64.scalarType()), weight, EPS));
        assertRefused("x must be a tensor, not null", () -> norm.apply(null, weight, EPS));
        assertRefused("weight must be a tensor, not null", () -> norm.apply(x, null, EPS));
        assertRefused("eps must be finite and at least 0, not -1.0", () -> norm.apply(x, weight, -1));
        assertRefused("eps must be finite and at least 0, not NaN", () -> norm.apply(x, weight, Double.NaN));
        assertRefused(
                "x must have a last dimension of at least 1, not the shape [2, 0]",
                () -> norm.apply(torch.zeros(2, 0), torch.zeros(0), EPS));
        assertRefused(
                "x must have a last dimension of at least 1, not the shape []", () -> norm.apply(x.sum(), weight, EPS));
    }

    @Test
    void theLayerRefusesWhatThePlainLayerRefuses() {
        assertRefused("width must be at least 1, not 0", () -> new FusedRmsNormLayer(0, Device.cpu(), DType.FLOAT32));
        assertRefused(
                "eps must be positive and finite, not -1.0",
                () -> new FusedRmsNormLayer(4, -1, Device.cpu(), DType.FLOAT32));
    }

    private static void assertRefused(String message, org.junit.jupiter.api.function.Executable call) {
        String said = assertThrows(IllegalArgumentException.class, call).getMessage();
        assertTrue(said.contains(message), said);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("norms")
    void firstAndSecondDerivativesEqualFiniteDifferences(String name, Norm norm) {
        Tensor x = random(1, DType.FLOAT64, 2, 3), weight = random(1, DType.FLOAT64, 3);
        GradCheck.Differentiable function = inputs -> new Tensor[] {norm.apply(inputs[0], inputs[1], EPS)};
        GradCheck.check(function, x, weight);
        GradCheck.checkDouble(function, x, weight);
    }

    @Test
    void logRecordsTensorOperations() {
        Tensor x = random(1, DType.FLOAT32, 2, 3).set_requires_grad(true), weight = random(1, DType.FLOAT32, 3);
        try (var log = KernelLog.open()) {
            FusedRmsNorm.apply(x, weight, EPS).sum().backward();
            assertEquals(List.of(Route.TENSOR_OPERATIONS, Route.TENSOR_OPERATIONS), log.routes());
            assertEquals(
                    "tensor operations rmsnorm_forward for fp32 on cpu",
                    log.entries().get(0).toString());
            assertEquals("rmsnorm_backward", log.entries().get(1).name());
        }
        assertEquals(Route.TENSOR_OPERATIONS, FusedRmsNorm.route(x));
    }

    @Test
    void layerIsFoundByNameAndEqualsRmsNorm() {
        try (var fused = Normalization.named("rmsnorm-fused").create(8, Device.cpu(), DType.FLOAT32);
                var plain = new RmsNorm(8, Device.cpu(), DType.FLOAT32)) {
            assertEquals(
                    plain.namedParameters().keySet(), fused.namedParameters().keySet());
            Tensor x = random(1, DType.FLOAT32, 4, 8);
            assertClose("y", Tensors.toDoubles(plain.forward(x)), Tensors.toDoubles(fused.forward(x)), 1e-6, 1e-7);
            fused.forward(x).sum().backward();
            assertTrue(fused.namedParameters().get("weight").grad().defined());
        }
    }
}
