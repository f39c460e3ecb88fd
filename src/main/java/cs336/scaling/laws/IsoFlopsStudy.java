package cs336.scaling.laws;

import cs336.numbers.Header;
import cs336.numbers.Tables;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.Table;

/**
 * Training runs with the scaling law that each method fits to them.
 *
 * @param runs training runs; of several equal compute budgets unless the loss surface is the only method
 * @param fits a fit for each method, or for some
 */
public record IsoFlopsStudy(IsoFlops runs, Map<FitMethod, ScalingFit> fits) {
    private static final double BILLION = 1e9;

    public IsoFlopsStudy {
        fits = Map.copyOf(fits);
    }

    /**
     * Fits the runs by all methods.
     *
     * @throws IllegalArgumentException if a method cannot fit these runs
     */
    public static IsoFlopsStudy of(IsoFlops runs, Bootstrap bootstrap) {
        return of(runs, bootstrap, List.of(FitMethod.values()));
    }

    /**
     * Fits the runs by some methods.
     *
     * @throws IllegalArgumentException if a method cannot fit these runs
     */
    public static IsoFlopsStudy of(IsoFlops runs, Bootstrap bootstrap, List<FitMethod> methods) {
        Map<FitMethod, ScalingFit> fits = new EnumMap<>(FitMethod.class);
        for (FitMethod method : methods) {
            fits.put(method, method.fit(runs, bootstrap));
        }
        return new IsoFlopsStudy(runs, fits);
    }

    /** Returns the methods with a fit, in the order of the enum. */
    public List<FitMethod> methods() {
        return Arrays.stream(FitMethod.values()).filter(fits::containsKey).toList();
    }

    /**
     * Returns the fit by a method.
     *
     * @throws IllegalArgumentException if this study has none
     */
    public ScalingFit fit(FitMethod method) {
        ScalingFit fit = fits.get(method);
        if (fit == null) {
            throw new IllegalArgumentException("method must be one of " + methods() + ", not " + method);
        }
        return fit;
    }

    /** Returns the fit of the loss surface. */
    public SurfaceFit surface() {
        return (SurfaceFit) fit(FitMethod.LOSS_SURFACE);
    }

    /**
     * Returns the optimal number of parameters by a method at one of the budgets of the runs: for line fits the minimum
     * of this budget's runs, for the surface the prediction of its law.
     *
     * @param compute budget in FLOP
     * @throws IllegalArgumentException if a line fit has no runs with this budget
     */
    public double minimum(FitMethod method, double compute) {
        return fit(method) instanceof LineFit line
                ? line.minima().stream()
                        .filter(m -> m.compute() == compute)
                        .findFirst()
                        .orElseThrow(() -> new IllegalArgumentException(
                                "compute must be a budget of the runs, not " + IsoFlops.flop(compute)))
                        .parameters()
                : fit(method).law().at(compute).parameters();
    }

    private record MinimumRow(
            @Header("compute (FLOP)") String compute,
            int runs,
            @Header("lowest run (1e9)") double lowestRun,
            @Header("parabola (1e9)") double parabola,
            @Header("loss surface (1e9)") double lossSurface,
            @Header("lowest is inside") boolean inside,
            @Header("tied runs") int tied,
            @Header("tied from (1e9)") double from,
            @Header("tied to (1e9)") double to) {}

    /**
     * Returns a table with a row for each budget: the optimal number of parameters by each method, and the number and
     * the sizes of the runs that are tied with the lowest, given the noise ({@link IsoFlopProfile#contenders}).
     *
     * @throws IllegalArgumentException if a method has no fit
     */
    public Table minima() {
        List<MinimumRow> rows = new ArrayList<>();
        for (IsoFlopProfile profile : runs.profiles()) {
            double compute = profile.compute();
            List<TrainingRun> tied = profile.contenders(surface().residualStandardDeviation());
            rows.add(new MinimumRow(
                    IsoFlops.flop(compute),
                    profile.runs().size(),
                    minimum(FitMethod.LOWEST_RUN, compute) / BILLION,
                    minimum(FitMethod.QUADRATIC_MINIMA, compute) / BILLION,
                    minimum(FitMethod.LOSS_SURFACE, compute) / BILLION,
                    profile.brackets(profile.lowest().parameters()),
                    tied.size(),
                    tied.get(0).parameters() / BILLION,
                    tied.get(tied.size() - 1).parameters() / BILLION));
        }
        return Tables.of(MinimumRow.class, rows).setName("minima");
    }

    private record ExponentRow(
            String method,
            @Header("a (model size)") double a,
            @Header("a from") double from,
            @Header("a to") double to,
            @Header("1 − a (data size)") double dataExponent) {}

    /** Returns a table with a row for each method: the exponents of model size and data size, and the interval of a. */
    public Table exponents() {
        List<ExponentRow> rows = new ArrayList<>();
        for (FitMethod method : methods()) {
            double exponent = fit(method).law().exponent();
            Interval interval = fit(method).exponent();
            rows.add(new ExponentRow(method.toString(), exponent, interval.low(), interval.high(), 1 - exponent));
        }
        return Tables.of(ExponentRow.class, rows).setName("exponents");
    }

    private record PredictionRow(
            @Header("compute (FLOP)") String compute,
            String method,
            @Header("parameters N (1e9)") double n,
            @Header("N from (1e9)") double nFrom,
            @Header("N to (1e9)") double nTo,
            @Header("tokens D (1e9)") double d,
            @Header("D from (1e9)") double dFrom,
            @Header("D to (1e9)") double dTo) {}

    /**
     * Returns a table with a row for each budget and method: the optimal number of parameters N and of tokens D, with
     * their intervals.
     *
     * @param budgets compute budgets in FLOP
     * @throws IllegalArgumentException if a budget is not positive
     */
    public Table predictions(double... budgets) {
        List<PredictionRow> rows = new ArrayList<>();
        for (double compute : budgets) {
            for (FitMethod method : methods()) {
                Optimum optimum = fit(method).law().at(compute);
                Interval parameters = fit(method).parameters(compute);
                Interval tokens = fit(method).tokens(compute);
                rows.add(new PredictionRow(
                        IsoFlops.flop(compute),
                        method.toString(),
                        optimum.parameters() / BILLION,
                        parameters.low() / BILLION,
                        parameters.high() / BILLION,
                        optimum.tokens() / BILLION,
                        tokens.low() / BILLION,
                        tokens.high() / BILLION));
            }
        }
        return Tables.of(PredictionRow.class, rows).setName("predictions");
    }

    /**
     * Returns one sentence for each budget whose minimum is at the smallest or largest size of its runs, or beyond.
     *
     * @throws IllegalArgumentException if the parabolas have no fit
     */
    public List<String> remarks() {
        List<String> remarks = new ArrayList<>();
        for (IsoFlopProfile profile : runs.profiles()) {
            String at = "At " + IsoFlops.flop(profile.compute()) + " FLOP ";
            if (!profile.brackets(profile.lowest().parameters())) {
                remarks.add(
                        at
                                + "the lowest run has the smallest or the largest size: the minimum may be outside the sizes tried.");
            } else if (!profile.brackets(minimum(FitMethod.QUADRATIC_MINIMA, profile.compute()))) {
                remarks.add(at + "the vertex of the parabola is outside the sizes tried.");
            }
        }
        return remarks;
    }
}
