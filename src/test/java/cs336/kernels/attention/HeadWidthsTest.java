package cs336.kernels.attention;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class HeadWidthsTest {
    @ParameterizedTest
    @CsvSource({"1, 16", "16, 16", "17, 32", "40, 64", "64, 64", "72, 80", "80, 80", "88, 128", "128, 128"})
    void rowsTakeTheNextWiderKernel(long d, int width) {
        assertEquals(width, HeadWidths.of(d));
    }

    @Test
    void rowsOfMoreThan128AreRejected() {
        String message = assertThrows(IllegalArgumentException.class, () -> HeadWidths.of(136))
                .getMessage();
        assertEquals("d must be at most 128, not 136", message);
    }
}
