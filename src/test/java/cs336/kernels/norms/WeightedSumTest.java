package cs336.kernels.norms;

import static cs336.kernels.Closeness.assertClose;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.kernels.runtime.KernelLog;
import cs336.kernels.runtime.Route;
import cs336.torch.Backward;
import cs336.torch.DType;
import cs336.torch.GradCheck;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class WeightedSumTest extends ScopedTest {
    @Test
    void sumsAndGradientsEqualTheFormula() {
        Tensor x = Tensors.of(new double[] {1, 2, 3, -1, 0.5, 4}, 2, 3).set_requires_grad(true);
        Tensor weight = Tensors.of(new double[] {2, -1, 0.5}, 3).set_requires_grad(true);
        Tensor y = WeightedSum.apply(x, weight);
        assertArrayEquals(new double[] {1.5, -0.5}, Tensors.toDoubles(y));
        Backward.of(y).with(Tensors.of(new double[] {10, -2}, 2)).run();
        assertArrayEquals(new double[] {20, -10, 5, -4, 2, -1}, Tensors.toDoubles(x.grad()));
        assertArrayEquals(new double[] {12, 19, 22}, Tensors.toDoubles(weight.grad()));
    }

    @Test
    void firstAndSecondDerivativesEqualFiniteDifferences() {
        Tensor x = Tensors.of(new double[] {1, 2, 3, -1, 0.5, 4}, 2, 3),
                weight = Tensors.of(new double[] {2, -1, 0.5}, 3);
        GradCheck.Differentiable function = inputs -> new Tensor[] {WeightedSum.apply(inputs[0], inputs[1])};
        GradCheck.check(function, x, weight);
        GradCheck.checkDouble(function, x, weight);
    }

    @Test
    void anyLeadingShapeWorks() {
        Tensor weight = Tensors.of(new double[] {2, -1}, 2);
        assertArrayEquals(new long[] {}, Tensors.shape(WeightedSum.apply(Tensors.of(new double[] {3, 4}, 2), weight)));
        assertArrayEquals(
                new long[] {3, 1, 2},
                Tensors.shape(WeightedSum.apply(
                        torch.zeros(new long[] {3, 1, 2, 2}).to(DType.FLOAT64.scalarType()), weight)));
        Tensor none = torch.zeros(new long[] {0, 2}).to(DType.FLOAT64.scalarType());
        assertArrayEquals(new long[] {0}, Tensors.shape(WeightedSum.apply(none, weight)));
    }

    @Test
    void bf16IsSummedInFp32() {
        Tensor x = torch.ones(new long[] {1, 1000}).to(DType.BFLOAT16.scalarType());
        Tensor y = WeightedSum.apply(x, torch.ones(1000).to(DType.BFLOAT16.scalarType()));
        assertEquals(DType.BFLOAT16, DType.of(y));
        assertClose("y", new double[] {1000}, Tensors.toDoubles(y), 0, 0); // bf16 sums would stop at 256
    }

    @Test
    void badArgumentsAreNamed() {
        Tensor x = torch.zeros(2, 3);
        assertRefused("weight must have the shape [3]", () -> WeightedSum.apply(x, torch.zeros(2)));
        assertRefused(
                "weight must be of x's dtype fp32, not fp64",
                () -> WeightedSum.apply(x, torch.zeros(3).to(DType.FLOAT64.scalarType())));
        assertRefused(
                "x must be one of",
                () -> WeightedSum.apply(
                        x.to(DType.INT64.scalarType()), torch.zeros(3).to(DType.INT64.scalarType())));
    }

    private static void assertRefused(String message, org.junit.jupiter.api.function.Executable call) {
        String said = assertThrows(IllegalArgumentException.class, call).getMessage();
        assertTrue(said.contains(message), said);
    }

    @Test
    void logRecordsTensorOperations() {
        try (var log = KernelLog.open()) {
            WeightedSum.apply(torch.zeros(2, 3), torch.zeros(3));
            assertEquals(List.of(Route.TENSOR_OPERATIONS), log.routes());
        }
    }
}
