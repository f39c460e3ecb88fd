package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Tensor;

/** The error of a tensor relative to a reference: ‖found − expected‖ ÷ ‖expected‖. */
final class NormwiseError {
    private NormwiseError() {}

    /** Asserts that a tensor has the shape and the dtype of the expected one, and an error of at most a bound. */
    static void assertAtMost(double bound, Tensor expected, Tensor found) {
        assertArrayEquals(Tensors.shape(expected), Tensors.shape(found));
        assertEquals(DType.of(expected), DType.of(found));
        try (var scope = MemoryScope.open()) {
            double error =
                    found.sub(expected).to(DType.FLOAT64.scalarType()).norm().item_double();
            double size = expected.to(DType.FLOAT64.scalarType()).norm().item_double();
            assertTrue(error <= bound * size, error / size + " > " + bound);
        }
    }
}
