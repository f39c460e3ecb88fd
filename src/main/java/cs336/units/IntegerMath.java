package cs336.units;

/** Quotients that are rounded up, and multiples: numbers of blocks, tiles and shards. */
public final class IntegerMath {
    private IntegerMath() {}

    /**
     * Returns the quotient, rounded up.
     *
     * @throws ArithmeticException if the divisor is 0
     */
    public static long ceilDiv(long dividend, long divisor) {
        return -Math.floorDiv(-dividend, divisor);
    }

    /**
     * Returns the quotient, rounded up.
     *
     * @throws ArithmeticException if the divisor is 0
     */
    public static int ceilDiv(int dividend, int divisor) {
        return -Math.floorDiv(-dividend, divisor);
    }

    /**
     * Returns the smallest multiple of {@code unit} that is not below {@code value}.
     *
     * @throws ArithmeticException if the unit is 0
     */
    public static long roundUp(long value, long unit) {
        return ceilDiv(value, unit) * unit;
    }

    /**
     * Returns the smallest multiple of {@code unit} that is not below {@code value}.
     *
     * @throws ArithmeticException if the unit is 0
     */
    public static int roundUp(int value, int unit) {
        return ceilDiv(value, unit) * unit;
    }
}
