package cs336.precision;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.stream.IntStream;

/**
 * What a floating-point type can hold, found by rounding numbers to it.
 *
 * @param dtype the type
 * @param significantBits bits of the significand, with the leading 1 that is not stored
 * @param largest the largest finite number
 * @param smallest the smallest number above 0; below the normal ones, whose bits are all there, down to this one they
 *     run out
 */
public record FloatFormat(DType dtype, int significantBits, double largest, double smallest) {
    /**
     * Asks a type.
     *
     * @throws IllegalArgumentException if it is no floating-point type
     */
    public static FloatFormat of(DType dtype) {
        if (dtype == DType.INT64 || dtype == DType.INT32 || dtype == DType.BOOL) {
            throw new IllegalArgumentException("dtype must be a floating-point type, not " + dtype);
        }
        // 1 + 2⁻ᵏ rounds to 1 from k = significant bits on.
        double[] aboveOne = rounded(
                dtype,
                IntStream.range(0, 54).mapToDouble(k -> 1 + Math.scalb(1.0, -k)).toArray());
        int bits = 1;
        while (bits < aboveOne.length && aboveOne[bits] != 1) {
            bits++;
        }
        int lowest = Double.MIN_EXPONENT - 52;
        double[] powers = rounded(
                dtype,
                IntStream.rangeClosed(lowest, Double.MAX_EXPONENT)
                        .mapToDouble(e -> Math.scalb(1.0, e))
                        .toArray());
        int first = 0;
        while (powers[first] == 0) {
            first++;
        }
        int last = powers.length - 1;
        while (Double.isInfinite(powers[last])) {
            last--;
        }
        return new FloatFormat(dtype, bits, powers[last] * (2 - Math.scalb(1.0, 1 - bits)), powers[first]);
    }

    private static double[] rounded(DType dtype, double[] values) {
        try (var scope = MemoryScope.open()) {
            return Tensors.toDoubles(Tensors.of(values, values.length).to(dtype.scalarType()));
        }
    }

    /** The distance from a number's magnitude to the next larger one: a sum there changes by multiples of it. */
    public double spacing(double x) {
        if (!(Math.abs(x) <= largest)) {
            throw new IllegalArgumentException("x must be within ±" + largest + ", not " + x);
        }
        return x == 0 ? smallest : Math.max(smallest, Math.scalb(1.0, Math.getExponent(x) + 1 - significantBits));
    }

    /** What a tensor of this type holds of x. PyTorch rounds to fp32 first where the type is narrower. */
    public double round(double x) {
        return rounded(dtype, new double[] {x})[0];
    }
}
