package cs336.basics;

/**
 * The hyperparameters of one parameter group of {@link AdamW}.
 *
 * @param learningRate α, at least 0; αλ must be below 1
 * @param beta1 β₁, the decay rate of the first moment, in [0, 1)
 * @param beta2 β₂, the decay rate of the second moment, in [0, 1)
 * @param eps ε, at least 0
 * @param weightDecay λ, at least 0
 * @param order the order of the update and the weight decay
 */
public record AdamWSettings(
        double learningRate, double beta1, double beta2, double eps, double weightDecay, AdamW.Order order) {
    /** @throws IllegalArgumentException if a hyperparameter is out of range */
    public AdamWSettings {
        TrainedParameters.requireRate("learningRate", learningRate);
        requireBelow("beta1", beta1, 1);
        requireBelow("beta2", beta2, 1);
        requireBelow("eps", eps, Double.POSITIVE_INFINITY);
        requireBelow("weightDecay", weightDecay, Double.POSITIVE_INFINITY);
        if (learningRate * weightDecay >= 1) {
            throw new IllegalArgumentException("learningRate " + learningRate + " times weightDecay " + weightDecay
                    + " must be below 1: otherwise the decay flips the sign of the parameters");
        }
        if (order == null) {
            throw new IllegalArgumentException("order must not be null");
        }
    }

    private static void requireBelow(String name, double value, double limit) {
        if (!(value >= 0 && value < limit)) {
            throw new IllegalArgumentException(name + " must be at least 0 and below " + limit + ", not " + value);
        }
    }

    /**
     * Returns the defaults of the course in 2024 and 2025: β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸, λ = 0.01, weight decay after
     * the update. The update differs from PyTorch's; for that, call {@link #withOrder} with {@link AdamW.Order#TORCH}.
     *
     * @throws IllegalArgumentException if the learning rate is negative, not finite, or at least 100 (αλ ≥ 1)
     */
    public static AdamWSettings of(double learningRate) {
        return new AdamWSettings(learningRate, 0.9, 0.999, 1e-8, 0.01, AdamW.Order.DECAY_AFTER);
    }

    /** Returns these settings with another learning rate. */
    public AdamWSettings withLearningRate(double learningRate) {
        return new AdamWSettings(learningRate, beta1, beta2, eps, weightDecay, order);
    }

    /** Returns these settings with other decay rates of the moments. */
    public AdamWSettings withBetas(double beta1, double beta2) {
        return new AdamWSettings(learningRate, beta1, beta2, eps, weightDecay, order);
    }

    /** Returns these settings with another ε. */
    public AdamWSettings withEps(double eps) {
        return new AdamWSettings(learningRate, beta1, beta2, eps, weightDecay, order);
    }

    /** Returns these settings with another weight decay. */
    public AdamWSettings withWeightDecay(double weightDecay) {
        return new AdamWSettings(learningRate, beta1, beta2, eps, weightDecay, order);
    }

    /** Returns these settings with another order of update and weight decay. */
    public AdamWSettings withOrder(AdamW.Order order) {
        return new AdamWSettings(learningRate, beta1, beta2, eps, weightDecay, order);
    }
}
