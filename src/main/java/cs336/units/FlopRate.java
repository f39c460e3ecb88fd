package cs336.units;

import java.util.Locale;

/**
 * The compute throughput of a device.
 *
 * @param perSecond floating-point operations per second, above 0
 */
public record FlopRate(double perSecond) {
    /** @throws IllegalArgumentException if {@code perSecond} is not above 0 */
    public FlopRate {
        if (!(perSecond > 0)) {
            throw new IllegalArgumentException("rate must be above 0 FLOP/s, not " + perSecond);
        }
    }

    /**
     * Returns the arithmetic intensity at which computing and moving data take the same time (the ridge point of the
     * roofline). Below it a kernel is memory-bound, above it compute-bound.
     *
     * @return FLOP per byte
     */
    public double perByteOf(Bandwidth bandwidth) {
        return perSecond / bandwidth.bytesPerSecond();
    }

    @Override
    public String toString() {
        return String.format(Locale.ROOT, "%,.4g TFLOP/s", perSecond / 1e12);
    }
}
