package cs336.scaling.laws;

/**
 * A compute-optimal model size.
 *
 * @param compute C, the budget in FLOP
 * @param parameters N, the number of parameters; predictions are not whole numbers
 */
public record Optimum(double compute, double parameters) {
    /** @throws IllegalArgumentException if a number is not positive */
    public Optimum {
        if (!(compute > 0)) {
            throw new IllegalArgumentException("compute must be above 0 FLOP, not " + compute);
        }
        if (!(parameters > 0)) {
            throw new IllegalArgumentException("parameters must be above 0, not " + parameters);
        }
    }

    /** Returns D, the number of tokens, from C = 6·N·D. */
    public double tokens() {
        return TrainingRun.tokens(compute, parameters);
    }
}
