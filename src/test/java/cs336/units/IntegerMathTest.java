package cs336.units;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class IntegerMathTest {
    @Test
    void quotientsAreRoundedUpAsIfComputedExactly() {
        for (int dividend = -50; dividend <= 50; dividend++) {
            for (int divisor = 1; divisor <= 9; divisor++) {
                int expected = (int) Math.ceil((double) dividend / divisor);
                assertEquals(expected, IntegerMath.ceilDiv(dividend, divisor));
                assertEquals(expected, IntegerMath.ceilDiv((long) dividend, divisor));
                assertEquals(expected * divisor, IntegerMath.roundUp(dividend, divisor));
                assertEquals((long) expected * divisor, IntegerMath.roundUp((long) dividend, divisor));
            }
        }
    }

    @Test
    void theLargestNumbersDoNotOverflow() {
        assertEquals(1 << 30, IntegerMath.ceilDiv(Integer.MAX_VALUE, 2));
        assertEquals(1L << 62, IntegerMath.ceilDiv(Long.MAX_VALUE, 2));
    }

    @Test
    void aQuotientByZeroIsAnError() {
        assertThrows(ArithmeticException.class, () -> IntegerMath.ceilDiv(1, 0));
        assertThrows(ArithmeticException.class, () -> IntegerMath.roundUp(1L, 0));
    }
}
