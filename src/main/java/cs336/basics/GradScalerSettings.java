package cs336.basics;

/**
 * The settings of a {@link GradScaler}.
 *
 * @param initialScale the first scale, above 0 and finite in fp32
 * @param growthFactor multiplies the scale after {@code growthInterval} steps without an overflow; above 1 and finite
 *     in fp32
 * @param backoffFactor multiplies the scale after an overflow; between 0 and 1
 * @param growthInterval the number of consecutive steps without an overflow before the scale grows; at least 1
 */
public record GradScalerSettings(double initialScale, double growthFactor, double backoffFactor, int growthInterval) {
    /** PyTorch's defaults: start at 65,536, double after 2,000 steps without an overflow, halve after an overflow. */
    public static final GradScalerSettings DEFAULT = new GradScalerSettings(65_536, 2, 0.5, 2_000);

    /** @throws IllegalArgumentException if a value is out of range */
    public GradScalerSettings {
        require(
                (float) initialScale > 0 && initialScale <= Float.MAX_VALUE,
                "initialScale",
                "above 0 and finite in fp32",
                initialScale);
        require(
                growthFactor > 1 && growthFactor <= Float.MAX_VALUE,
                "growthFactor",
                "above 1 and finite in fp32",
                growthFactor);
        require(backoffFactor > 0 && backoffFactor < 1, "backoffFactor", "between 0 and 1", backoffFactor);
        require(growthInterval >= 1, "growthInterval", "at least 1", growthInterval);
    }

    private static void require(boolean holds, String name, String allowed, Number value) {
        if (!holds) {
            throw new IllegalArgumentException(name + " must be " + allowed + ", not " + value);
        }
    }
}
