package cs336.precision;

import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.stream.IntStream;

/**
 * The precision and range of a floating-point type, measured by rounding numbers to it on the CPU.
 *
 * @param dtype the type
 * @param significantBits the bits of the significand, including the implicit leading 1
 * @param largest the largest finite number
 * @param smallest the smallest positive subnormal number
 */
public record FloatFormat(DType dtype, int significantBits, double largest, double smallest) {
    /**
     * Returns the format of a type.
     *
     * @throws IllegalArgumentException if the type is not a floating-point type
     */
    public static FloatFormat of(DType dtype) {
        if (!dtype.isFloatingPoint()) {
            throw new IllegalArgumentException("dtype must be a floating-point type, not " + dtype);
        }
        // 1 + 2⁻ᵏ rounds to 1 for each k ≥ significantBits.
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

    /**
     * Returns the distance from |x| to the next larger number of this type (the unit in the last place).
     *
     * @throws IllegalArgumentException if x is out of range or NaN
     */
    public double spacing(double x) {
        if (!(Math.abs(x) <= largest)) {
            throw new IllegalArgumentException("x must be within ±" + largest + ", not " + x);
        }
        return x == 0 ? smallest : Math.max(smallest, Math.scalb(1.0, Math.getExponent(x) + 1 - significantBits));
    }

    /** Returns x rounded to this type by PyTorch, which rounds to fp32 first if the type has fewer bits than fp32. */
    public double round(double x) {
        return rounded(dtype, new double[] {x})[0];
    }
}
