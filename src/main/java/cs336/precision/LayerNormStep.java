package cs336.precision;

import java.util.Locale;

/** A step of a {@link LowPrecisionLayerNorm} that can run in a low-precision type. */
public enum LayerNormStep {
    /** The sum of a row for its mean, accumulated one element at a time. */
    MEAN,
    /** x − mean. */
    CENTRING,
    /** (x − mean)². */
    SQUARES,
    /** The sum of the squares for the variance, accumulated one element at a time. */
    VARIANCE,
    /** 1 ÷ √(variance + ε). */
    ROOT,
    /** (x − mean) · 1 ÷ √(variance + ε): the output. */
    PRODUCT;

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
