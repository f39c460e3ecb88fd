package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TensorsTest {
    @Test
    void valuesAreRowMajorAndAreReadBack() {
        try (var scope = MemoryScope.open()) {
            double[] values = {1, 2, 3, 4, 5, 1e-300};
            Tensor matrix = Tensors.of(values, 2, 3);
            assertArrayEquals(new long[] {2, 3}, Tensors.shape(matrix));
            assertEquals(4, matrix.select(0, 1).select(0, 0).item_double());
            assertArrayEquals(values, Tensors.toDoubles(matrix));
            assertArrayEquals(new double[] {1, 4, 2, 5, 3, 1e-300}, Tensors.toDoubles(matrix.t()));
        }
    }

    @Test
    void tensorOwnsItsMemory() {
        try (var scope = MemoryScope.open()) {
            long[] values = {7, 8};
            Tensor tensor = Tensors.of(values, 2);
            values[0] = 0;
            System.gc();
            assertArrayEquals(new double[] {7, 8}, Tensors.toDoubles(tensor));
            assertEquals(DType.INT64, DType.of(tensor));
        }
    }

    @Test
    void shapeThatDoesNotMatchIsRefused() {
        var error = assertThrows(IllegalArgumentException.class, () -> Tensors.of(new float[5], 2, 3));
        assertEquals("shape [2, 3] has 6 elements, but there are 5 values", error.getMessage());
    }
}
