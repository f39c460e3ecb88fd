package cs336.scaling.laws;

/** A law of the compute-optimal size that was fitted to runs, and how sure it is. */
public sealed interface ScalingFit permits LineFit, SurfaceFit {
    /** The law. */
    PowerLaw law();

    /** Where its exponent lies. */
    Interval exponent();

    /** Where the number of parameters at a budget in FLOP lies. */
    Interval parameters(double compute);

    /**
     * Where the number of tokens lies, which is C / (6·N) of {@link #parameters} and so the fewer, the more those are.
     */
    default Interval tokens(double compute) {
        Interval parameters = parameters(compute);
        return new Interval(
                TrainingRun.tokens(compute, parameters.high()), TrainingRun.tokens(compute, parameters.low()));
    }
}
