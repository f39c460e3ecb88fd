package cs336.scaling.laws;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import tech.tablesaw.api.BooleanColumn;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * Runs, and what every method makes of them.
 *
 * @param runs the runs
 * @param fits a fit for each method
 */
public record IsoFlopsStudy(IsoFlops runs, Map<FitMethod, ScalingFit> fits) {
    private static final double BILLION = 1e9;

    public IsoFlopsStudy {
        fits = Map.copyOf(fits);
    }

    /**
     * Fits by all methods.
     *
     * @throws IllegalArgumentException if the runs do not allow one of them
     */
    public static IsoFlopsStudy of(IsoFlops runs, Bootstrap bootstrap) {
        Map<FitMethod, ScalingFit> fits = new EnumMap<>(FitMethod.class);
        for (FitMethod method : FitMethod.values()) fits.put(method, method.fit(runs, bootstrap));
        return new IsoFlopsStudy(runs, fits);
    }

    /** The fit by a method. */
    public ScalingFit fit(FitMethod method) {
        return fits.get(method);
    }

    /** The loss surface. */
    public SurfaceFit surface() {
        return (SurfaceFit) fit(FitMethod.LOSS_SURFACE);
    }

    /**
     * The size that a method takes for the best at a budget of the runs: a minimum of its own, or what its law says.
     */
    public double minimum(FitMethod method, double compute) {
        return fit(method) instanceof LineFit line
                ? line.minima().stream()
                        .filter(m -> m.compute() == compute)
                        .findFirst()
                        .orElseThrow()
                        .parameters()
                : fit(method).law().at(compute).parameters();
    }

    /**
     * A row a budget: in 10⁹ parameters what each method finds, and how many of the runs noise does not let tell from
     * the lowest, from which size to which.
     */
    public Table minima() {
        Table table = Table.create("minima", StringColumn.create("compute"), IntColumn.create("runs"));
        for (FitMethod method : FitMethod.values()) table.addColumns(DoubleColumn.create(method.toString()));
        table.addColumns(
                BooleanColumn.create("between runs"),
                IntColumn.create("as low"),
                DoubleColumn.create("from"),
                DoubleColumn.create("to"));
        for (IsoFlopProfile profile : runs.profiles()) {
            List<TrainingRun> contenders = profile.contenders(surface().deviation());
            Row row = table.appendRow();
            row.setString("compute", IsoFlops.flop(profile.compute()));
            row.setInt("runs", profile.runs().size());
            for (FitMethod method : FitMethod.values()) {
                row.setDouble(method.toString(), minimum(method, profile.compute()) / BILLION);
            }
            row.setBoolean("between runs", profile.brackets(profile.lowest().parameters()));
            row.setInt("as low", contenders.size());
            row.setDouble("from", contenders.get(0).parameters() / BILLION);
            row.setDouble("to", contenders.get(contenders.size() - 1).parameters() / BILLION);
        }
        return table;
    }

    /** A row a method: the exponents of model size and data size, a and 1 − a, and the interval of a. */
    public Table exponents() {
        Table table = Table.create(
                "exponents",
                StringColumn.create("method"),
                DoubleColumn.create("a (model size)"),
                DoubleColumn.create("from"),
                DoubleColumn.create("to"),
                DoubleColumn.create("1 − a (data size)"));
        for (FitMethod method : FitMethod.values()) {
            double exponent = fit(method).law().exponent();
            Interval within = fit(method).exponent();
            Row row = table.appendRow();
            row.setString("method", method.toString());
            row.setDouble("a (model size)", exponent);
            row.setDouble("from", within.low());
            row.setDouble("to", within.high());
            row.setDouble("1 − a (data size)", 1 - exponent);
        }
        return table;
    }

    /**
     * A row a budget and method: in 10⁹ the parameters N and tokens D that it should be spent on, and their intervals.
     *
     * @param budgets in FLOP
     * @throws IllegalArgumentException if a budget is not positive
     */
    public Table predictions(double... budgets) {
        Table table = Table.create("predictions", StringColumn.create("compute"), StringColumn.create("method"));
        for (String name : List.of("N / 1e9", "N from", "N to", "D / 1e9", "D from", "D to")) {
            table.addColumns(DoubleColumn.create(name));
        }
        for (double compute : budgets) {
            for (FitMethod method : FitMethod.values()) {
                Optimum optimum = fit(method).law().at(compute);
                Interval parameters = fit(method).parameters(compute);
                Interval tokens = fit(method).tokens(compute);
                Row row = table.appendRow();
                row.setString("compute", IsoFlops.flop(compute));
                row.setString("method", method.toString());
                row.setDouble("N / 1e9", optimum.parameters() / BILLION);
                row.setDouble("N from", parameters.low() / BILLION);
                row.setDouble("N to", parameters.high() / BILLION);
                row.setDouble("D / 1e9", optimum.tokens() / BILLION);
                row.setDouble("D from", tokens.low() / BILLION);
                row.setDouble("D to", tokens.high() / BILLION);
            }
        }
        return table;
    }

    /** What to beware of, a sentence each; none where there is nothing. */
    public List<String> remarks() {
        List<String> remarks = new ArrayList<>();
        for (IsoFlopProfile profile : runs.profiles()) {
            String at = "At " + IsoFlops.flop(profile.compute()) + " FLOP ";
            if (!profile.brackets(profile.lowest().parameters())) {
                remarks.add(at
                        + "the lowest run is the smallest or the largest: the minimum may lie beyond the sizes tried.");
            } else if (!profile.brackets(minimum(FitMethod.QUADRATIC_MINIMA, profile.compute()))) {
                remarks.add(at + "the parabola's vertex lies beyond the sizes tried.");
            }
        }
        return remarks;
    }
}
