package cs336.kernels;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;

/** Assertions that a result is close to a reference. */
public final class Closeness {
    private Closeness() {}

    /**
     * Asserts |actual − expected| ≤ relative · |expected| + absolute, for each element. NaN is never close.
     *
     * @param what name of the result, for the message
     */
    public static void assertClose(String what, double[] expected, double[] actual, double relative, double absolute) {
        assertEquals(expected.length, actual.length, what + ": number of elements");
        int worst = -1;
        double worstExcess = 0;
        for (int i = 0; i < expected.length; i++) {
            double allowed = relative * Math.abs(expected[i]) + absolute;
            double error = Math.abs(actual[i] - expected[i]);
            double excess = Double.isNaN(error) ? Double.POSITIVE_INFINITY : error - allowed;
            if (excess > worstExcess) {
                worstExcess = excess;
                worst = i;
            }
        }
        if (worst >= 0) {
            fail(what + ": element " + worst + " of " + expected.length + " is " + actual[worst] + ", expected "
                    + expected[worst] + " within relative " + relative + " and absolute " + absolute);
        }
    }

    /** Returns the largest magnitude. */
    public static double largest(double[] values) {
        double largest = 0;
        for (double value : values) {
            largest = Math.max(largest, Math.abs(value));
        }
        return largest;
    }
}
