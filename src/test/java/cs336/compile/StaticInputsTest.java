package cs336.compile;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.compile.program.Layout;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class StaticInputsTest extends ScopedTest {
    @Test
    void stridesAndElementsAreThoseOfTheInputs() {
        Tensor[] inputs = {
            torch.randn(3, 4),
            torch.randn(4, 3).t(),
            torch.randn(3, 9).narrow(1, 1, 4),
            torch.randn(4).expand(3, 4),
            torch.randn(1).expand(2, 2),
            torch.randn(9).narrow(0, 2, 6).unfold(0, 3, 1),
            torch.randn(0, 4),
            torch.scalar_tensor(new Scalar(2.0))
        };
        try (var copies = new StaticInputs(inputs)) {
            copies.copy(inputs);
            for (int i = 0; i < inputs.length; i++) {
                Layout layout = Layout.of(inputs[i]);
                assertArrayEquals(
                        layout.strides(), Layout.of(copies.tensors()[i]).strides());
                assertTrue(torch.equal(inputs[i], copies.tensors()[i]));
                assertFalse(inputs[i].is_alias_of(copies.tensors()[i]));
            }
        }
    }

    @Test
    void inputsThatShareMemoryStillDo() {
        Tensor ids = Tensors.of(new long[] {1, 2, 3, 4, 5, 6}, 2, 3);
        Tensor[] inputs = {ids.narrow(1, 1, 2), ids.narrow(1, 0, 2), Tensors.of(new long[] {7}, 1), ids};
        try (var copies = new StaticInputs(inputs)) {
            copies.copy(inputs);
            copies.tensors()[3].add_(new Scalar(10L));
            assertArrayEquals(new double[] {12, 13, 15, 16}, Tensors.toDoubles(copies.tensors()[0]));
            assertArrayEquals(new double[] {11, 12, 14, 15}, Tensors.toDoubles(copies.tensors()[1]));
            assertArrayEquals(new double[] {7}, Tensors.toDoubles(copies.tensors()[2]));
            assertArrayEquals(new double[] {1, 2, 3, 4, 5, 6}, Tensors.toDoubles(ids));
        }
    }

    @Test
    void memoryOfTwoDtypesIsRefused() {
        Tensor pairs = torch.randn(3, 2);
        String message = assertThrows(
                        IllegalStateException.class, () -> new StaticInputs(pairs, torch.view_as_complex(pairs)))
                .getMessage();
        assertEquals("inputs with different dtypes must not share memory in a CUDA graph", message);
    }

    @Test
    void aConjugatedInputStaysConjugated() {
        Tensor conjugated = torch.view_as_complex(torch.randn(3, 2)).conj();
        try (var copies = new StaticInputs(conjugated)) {
            copies.copy(conjugated);
            assertTrue(copies.tensors()[0].is_conj());
            assertTrue(torch.equal(conjugated, copies.tensors()[0]));
        }
    }
}
