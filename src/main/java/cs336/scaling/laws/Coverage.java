package cs336.scaling.laws;

import java.util.EnumMap;
import java.util.Map;

/**
 * How often intervals hold the truth, counted over sets of runs that differ in their noise.
 *
 * @param sets how many sets
 * @param exponents in how many of them the exponent's interval did
 * @param parameters in how many of them the interval of the model size did
 */
public record Coverage(int sets, int exponents, int parameters) {
    /** As a share of the sets. */
    public double ofExponents() {
        return (double) exponents / sets;
    }

    /** As a share of the sets. */
    public double ofParameters() {
        return (double) parameters / sets;
    }

    /**
     * Draws sets with seeds 1, 2, 3 … and fits each by all methods.
     *
     * @param compute the budget in FLOP whose model size is predicted
     * @throws IllegalArgumentException if there are no sets to draw
     */
    public static Map<FitMethod, Coverage> of(SyntheticRuns synthetic, int sets, double compute, Bootstrap bootstrap) {
        if (sets < 1) throw new IllegalArgumentException("sets must be at least 1, not " + sets);
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
