package cs336.scaling.laws;

/**
 * A finished training run.
 *
 * @param parameters N, the number of parameters of the model
 * @param compute C, the compute of the run in FLOP
 * @param loss final training loss: mean cross-entropy in nats per token
 */
public record TrainingRun(long parameters, double compute, double loss) {
    /** The FLOP per parameter and token of forward and backward pass: C = 6·N·D (Kaplan et al., 2020, section 2.1). */
    public static final double FLOP_PER_PARAMETER_AND_TOKEN = 6;

    /**
     * @throws IllegalArgumentException if a number is not positive and finite, or C is less than the compute of one
     *     token
     */
    public TrainingRun {
        if (parameters <= 0) {
            throw new IllegalArgumentException("parameters must be above 0, not " + parameters);
        }
        positive("compute_budget", compute, "FLOP");
        positive("final_loss", loss, "nats per token");
        double tokens = tokens(compute, parameters);
        if (tokens < 1) {
            throw new IllegalArgumentException(
                    "compute_budget must be in FLOP: %s is enough for %.1g tokens of a model of %d parameters"
                            .formatted(IsoFlops.flop(compute), tokens, parameters));
        }
    }

    private static void positive(String name, double value, String unit) {
        if (!(value > 0 && Double.isFinite(value))) {
            throw new IllegalArgumentException(name + " must be above 0 " + unit + ", not " + value);
        }
    }

    /** Returns D, the number of training tokens: C / (6·N). */
    public double tokens() {
        return tokens(compute, parameters);
    }

    static double tokens(double compute, double parameters) {
        return compute / (FLOP_PER_PARAMETER_AND_TOKEN * parameters);
    }
}
