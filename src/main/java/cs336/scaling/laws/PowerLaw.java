package cs336.scaling.laws;

/**
 * The compute-optimal model size as a power of the budget, N = coefficient · C^exponent. The data size follows from C =
 * 6·N·D: D = C^(1 − exponent) / (6 · coefficient).
 *
 * @param coefficient number of parameters at a budget of 1 FLOP
 * @param exponent exponent of the budget; with 0.5, model and data grow by the same factor
 */
public record PowerLaw(double coefficient, double exponent) {
    /**
     * Returns the optimum for a budget in FLOP.
     *
     * @throws IllegalArgumentException if the budget is not positive
     */
    public Optimum at(double compute) {
        return new Optimum(compute, coefficient * Math.pow(compute, exponent));
    }
}
