package cs336.scaling.laws;

import java.util.List;
import java.util.Locale;
import java.util.function.Function;

/** A method to find the compute-optimal model size from runs of several compute budgets. */
public enum FitMethod {
    /** A linear fit of ln N over ln C to the run with the lowest loss of each budget. */
    LOWEST_RUN,
    /**
     * A linear fit of ln N over ln C to one vertex per budget: that of the parabola fitted to the budget's losses over
     * ln N (Hoffmann et al., 2022, section 3.2).
     */
    QUADRATIC_MINIMA,
    /** A fit of a loss surface to all runs of all budgets (Hoffmann et al., 2022, section 3.3). */
    LOSS_SURFACE;

    /**
     * Fits a law to the runs.
     *
     * @throws IllegalArgumentException if the method needs runs of equal budgets and {@link IsoFlops#profiles} rejects
     *     these runs; if the losses of a budget have no minimum and the method needs one; if all but one of the budgets
     *     are nearly equal; or for a loss surface if there are fewer than six runs or fewer than three values of N or D
     * @throws IllegalStateException if the fit of the loss surface does not converge
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
        double size = Math.exp(parabola.vertex());
        boolean opensUpwards = parabola.curvature() > 0;
        if (!opensUpwards || size < 1 || Double.isInfinite(size)) {
            throw new IllegalArgumentException("the losses of compute_budget " + IsoFlops.flop(profile.compute())
                    + " must have a minimum: their parabola "
                    + (opensUpwards ? "is nearly a line, with its vertex at N = " + size : "opens downwards"));
        }
        return size;
    }

    /** Returns the name in lower case with hyphens, as in {@code lowest-run}. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
