package cs336.scaling.laws;

import java.util.List;
import java.util.Locale;
import java.util.function.Function;

/** Ways to find the compute-optimal size from runs of several budgets. */
public enum FitMethod {
    /** The run with the lowest loss of each budget, and a line through these in logarithms. */
    LOWEST_RUN,
    /**
     * The vertex of the parabola through each budget's losses over ln N, and a line through these in logarithms
     * (Hoffmann et al., 2022, section 3.2).
     */
    QUADRATIC_MINIMA,
    /** A loss surface through all runs of all budgets (the same, section 3.3). */
    LOSS_SURFACE;

    /**
     * Fits.
     *
     * @throws IllegalArgumentException if a budget's losses have no minimum where the method needs one
     */
    public ScalingFit fit(IsoFlops runs, Bootstrap bootstrap) {
        return switch (this) {
            case LOWEST_RUN ->
                new LineFit(minima(runs, profile -> profile.lowest().parameters()), bootstrap);
            case QUADRATIC_MINIMA -> new LineFit(minima(runs, FitMethod::vertex), bootstrap);
            case LOSS_SURFACE -> new SurfaceFit(runs.runs(), bootstrap);
        };
    }

    private static List<Optimum> minima(IsoFlops runs, Function<IsoFlopProfile, Number> size) {
        return runs.profiles().stream()
                .map(profile ->
                        new Optimum(profile.compute(), size.apply(profile).doubleValue()))
                .toList();
    }

    private static double vertex(IsoFlopProfile profile) {
        Parabola parabola = profile.parabola();
        if (!(parabola.curvature() > 0)) {
            throw new IllegalArgumentException("the losses of compute_budget " + IsoFlops.flop(profile.compute())
                    + " must have a minimum: their parabola opens downwards");
        }
        return Math.exp(parabola.vertex());
    }

    /** As in {@code lowest-run}. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
