package cs336.units;

/** Sums and products of amounts. An overflow names the amount and both operands, unlike {@link Math#multiplyExact}. */
final class CheckedMath {
    private static final String LIMIT = " exceed the largest amount, 2^63 - 1";

    private CheckedMath() {}

    /**
     * Returns a · b.
     *
     * @param what the amount, for the error message
     * @throws ArithmeticException if the product is above 2⁶³ − 1 or below −2⁶³
     */
    static long times(String what, long a, long b) {
        try {
            return Math.multiplyExact(a, b);
        } catch (ArithmeticException e) {
            throw new ArithmeticException(a + " × " + b + " " + what + LIMIT);
        }
    }

    /**
     * Returns a + b.
     *
     * @param what the amount, for the error message
     * @throws ArithmeticException if the sum is above 2⁶³ − 1 or below −2⁶³
     */
    static long plus(String what, long a, long b) {
        try {
            return Math.addExact(a, b);
        } catch (ArithmeticException e) {
            throw new ArithmeticException(a + " + " + b + " " + what + LIMIT);
        }
    }
}
