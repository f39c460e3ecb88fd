package cs336.torch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

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

    /** conj() and imag() negate lazily. */
    @Test
    void lazilyNegatedValuesAreNegative() {
        Tensor complex = torch.view_as_complex(Tensors.of(new double[] {1, 5}, 1, 2));
        assertArrayEquals(new double[] {-5}, Tensors.toDoubles(torch.imag(complex.conj())));
    }

    @Test
    void anEmptyTensorHasNoValues() {
        try (var scope = MemoryScope.open()) {
            assertArrayEquals(new double[0], Tensors.toDoubles(torch.empty(0)));
            assertArrayEquals(new long[0], Tensors.toLongs(Tensors.of(new long[0], 2, 0)));
            assertArrayEquals(new long[] {0, 3}, Tensors.shape(Tensors.of(new float[0], 0, 3)));
            assertArrayEquals(new double[] {7}, Tensors.toDoubles(Tensors.of(new double[] {7})));
        }
    }

    @Test
    void integersAreNotTruncated() {
        try (var scope = MemoryScope.open()) {
            Tensor halves = Tensors.of(new double[] {1.5}, 1);
            var error = assertThrows(IllegalArgumentException.class, () -> Tensors.toLongs(halves));
            assertTrue(
                    error.getMessage().startsWith("tensor must have an integer type, not Double"), error.getMessage());
            assertArrayEquals(new long[] {0, 1}, Tensors.toLongs(Tensors.of(new long[] {0, 1}, DType.BOOL, 2)));
        }
    }

    @ParameterizedTest
    @EnumSource(DType.class)
    void valuesAreConvertedToTheGivenType(DType dtype) {
        try (var scope = MemoryScope.open()) {
            for (Tensor tensor : List.of(
                    Tensors.of(new double[] {0, 1}, dtype, 2, 1),
                    Tensors.of(new float[] {0, 1}, dtype, 2, 1),
                    Tensors.of(new long[] {0, 1}, dtype, 2, 1))) {
                assertEquals(dtype, DType.of(tensor));
                assertArrayEquals(new long[] {2, 1}, Tensors.shape(tensor));
                assertArrayEquals(new double[] {0, 1}, Tensors.toDoubles(tensor));
            }
        }
    }

    @Test
    void valuesThatAnIntegerTypeCannotRepresentAreRefused() {
        for (double value : new double[] {0.5, 0x1p63, Double.NaN, Double.NEGATIVE_INFINITY}) {
            var error = assertThrows(
                    IllegalArgumentException.class, () -> Tensors.of(new double[] {value}, DType.INT64, 1));
            assertEquals("value " + value + " cannot be represented in int64", error.getMessage());
        }
        assertThrows(IllegalArgumentException.class, () -> Tensors.of(new double[] {0x1p31}, DType.INT32, 1));
        assertThrows(IllegalArgumentException.class, () -> Tensors.of(new long[] {1L << 31}, DType.INT32, 1));
        assertThrows(IllegalArgumentException.class, () -> Tensors.of(new long[] {2}, DType.BOOL, 1));
        assertThrows(IllegalArgumentException.class, () -> Tensors.of(new long[] {-1}, DType.BOOL, 1));
        assertThrows(IllegalArgumentException.class, () -> Tensors.of(new long[] {-1}, DType.UINT64, 1));
        assertThrows(IllegalArgumentException.class, () -> Tensors.of(new double[] {0x1p64}, DType.UINT64, 1));
    }

    @Test
    void tensorsThatCannotBeUsedAreNamed() {
        Tensor closed = torch.ones(3);
        closed.close();
        for (Consumer<Tensor> use : List.<Consumer<Tensor>>of(
                Tensors::toDoubles, Tensors::toLongs, Tensors::shape, Tensors::leadingShape)) {
            assertEquals("tensor must not be null", message(() -> use.accept(null)));
            assertEquals("tensor is closed; its memory scope has ended", message(() -> use.accept(closed)));
            try (Tensor undefined = new Tensor()) {
                assertTrue(message(() -> use.accept(undefined)).startsWith("tensor is undefined"));
            }
        }
        try (var scope = MemoryScope.open()) {
            assertEquals(
                    "tensor must have at least one dimension",
                    message(() -> Tensors.leadingShape(Tensors.of(new double[] {1}))));
        }
        assertEquals("shape [-1, -2] has a negative size", message(() -> Tensors.of(new double[2], -1, -2)));
        assertTrue(message(() -> Tensors.of(new double[2], 1L << 62, 1L << 62)).contains("but there are 2 values"));
        assertTrue(message(() -> Tensors.of(new double[0], 0, 1L << 62, 2)).contains("must have a product below 2^63"));
    }

    private static String message(Executable use) {
        return assertThrows(IllegalArgumentException.class, use).getMessage();
    }
}
