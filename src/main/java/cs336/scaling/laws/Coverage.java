package cs336.scaling.laws;

import java.util.EnumMap;
import java.util.Map;

/**
 * The coverage of confidence intervals: the number of sets of runs, each with different noise, for which the interval
 * contains the true value.
 *
 * @param sets number of sets
 * @param exponents number of sets in which the interval of the exponent contains the true exponent
 * @param parameters number of sets in which the interval of the model size contains the true size
 */
public record Coverage(int sets, int exponents, int parameters) {
    /** Returns the coverage of the exponent, between 0 and 1. */
    public double ofExponents() {
        return (double) exponents / sets;
    }

    /** Returns the coverage of the model size, between 0 and 1. */
    public double ofParameters() {
        return (double) parameters / sets;
    }

    /**
     * Draws sets of runs with seeds 1, 2, 3 … and fits each by all methods.
     *
     * @param compute budget in FLOP for which the model size is predicted
     * @throws IllegalArgumentException if {@code sets} is below 1
     */
    public static Map<FitMethod, Coverage> of(SyntheticRuns synthetic, int sets, double compute, Bootstrap bootstrap) {
        if (sets < 1) {
            throw new IllegalArgumentException("sets must be at least 1, not " + sets);
        }
        PowerLaw truth = synthetic.surface().law();
        Map<FitMethod, Coverage> counted = new EnumMap<>(FitMethod.class);
        for (int seed = 1; seed <= sets; seed++) {
            IsoFlops runs = synthetic.seeded(seed).draw();
            for (FitMethod method : FitMethod.values()) {
                ScalingFit fit = method.fit(runs, bootstrap);
                int exponent = fit.exponent().contains(truth.exponent()) ? 1 : 0;
                int size = fit.parameters(compute).contains(truth.at(compute).parameters()) ? 1 : 0;
                counted.merge(
                        method,
                        new Coverage(1, exponent, size),
                        (a, b) ->
                                new Coverage(a.sets + b.sets, a.exponents + b.exponents, a.parameters + b.parameters));
            }
        }
        return counted;
    }
}
