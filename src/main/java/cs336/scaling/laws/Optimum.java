package cs336.scaling.laws;

/**
 * A way to spend a compute budget.
 *
 * @param compute C, in FLOP
 * @param parameters N; not a whole number where it was computed
 */
public record Optimum(double compute, double parameters) {
    /** @throws IllegalArgumentException if a number is not positive */
    public Optimum {
        if (!(compute > 0)) throw new IllegalArgumentException("compute must be above 0 FLOP, not " + compute);
        if (!(parameters > 0)) throw new IllegalArgumentException("parameters must be above 0, not " + parameters);
    }

    /** D, so that C = 6·N·D. */
    public double tokens() {
        return TrainingRun.tokens(compute, parameters);
    }
}
