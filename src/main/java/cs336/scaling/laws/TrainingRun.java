package cs336.scaling.laws;

/**
 * A finished training run, as scaling laws see it.
 *
 * @param parameters of the model, N
 * @param compute the budget that the run used up, C, in FLOP
 * @param loss the final training loss: mean cross-entropy a token, in nats
 */
public record TrainingRun(long parameters, double compute, double loss) {
    /** What one token costs for each parameter, forward and backward: C = 6·N·D (Kaplan et al., 2020, section 2.1). */
    public static final double FLOP_PER_PARAMETER_AND_TOKEN = 6;

    /**
     * Refuses what cannot be.
     *
     * @throws IllegalArgumentException if a number is not positive and finite, or the budget is not enough for one
     *     token
     */
    public TrainingRun {
        if (parameters <= 0) throw new IllegalArgumentException("parameters must be above 0, not " + parameters);
        positive("compute_budget", compute, "FLOP");
        positive("final_loss", loss, "nats a token");
        double tokens = tokens(compute, parameters);
        if (tokens < 1) {
            throw new IllegalArgumentException(
                    "compute_budget must be in FLOP: %s pays for %.1g tokens of a model of %d parameters"
                            .formatted(IsoFlops.flop(compute), tokens, parameters));
        }
    }

    private static void positive(String name, double value, String unit) {
        if (!(value > 0 && Double.isFinite(value))) {
            throw new IllegalArgumentException(name + " must be above 0 " + unit + ", not " + value);
        }
    }

    /** The tokens that it was trained on, D = C / (6·N). */
    public double tokens() {
        return tokens(compute, parameters);
    }

    static double tokens(double compute, double parameters) {
        return compute / (FLOP_PER_PARAMETER_AND_TOKEN * parameters);
    }
}
