package cs336.units;

import java.util.Locale;

/**
 * How fast a device computes.
 *
 * @param perSecond floating-point operations a second, above 0
 */
public record FlopRate(double perSecond) {
    /** @throws IllegalArgumentException if it is not above 0 */
    public FlopRate {
        if (!(perSecond > 0)) throw new IllegalArgumentException("rate must be above 0 FLOP/s, not " + perSecond);
    }

    /**
     * Operations for each byte that moves in the same time: below that intensity, moving takes longer than computing.
     *
     * @return FLOP per byte
     */
    public double perByteOf(Bandwidth bandwidth) {
        return perSecond / bandwidth.bytesPerSecond();
    }

    @Override
    public String toString() {
        return String.format(Locale.ROOT, "%.4g TFLOP/s", perSecond / 1e12);
    }
}
