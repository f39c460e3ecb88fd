package cs336.scaling.laws;

/** A fitted law of the compute-optimal size, with confidence intervals. */
public sealed interface ScalingFit permits LineFit, SurfaceFit {
    /** Returns the fitted law. */
    PowerLaw law();

    /** Returns the interval of the exponent. */
    Interval exponent();

    /**
     * Returns the interval of the number of parameters for a budget in FLOP.
     *
     * @throws IllegalArgumentException if the budget is not positive
     */
    Interval parameters(double compute);

    /**
     * Returns the interval of the number of tokens for a budget in FLOP. As D = C / (6·N), its lower end belongs to the
     * upper end of {@link #parameters}.
     *
     * @throws IllegalArgumentException if the budget is not positive
     */
    default Interval tokens(double compute) {
        Interval parameters = parameters(compute);
        return new Interval(
                TrainingRun.tokens(compute, parameters.high()), TrainingRun.tokens(compute, parameters.low()));
    }
}
