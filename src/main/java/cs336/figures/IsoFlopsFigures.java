package cs336.figures;

import cs336.charts.AxisRange;
import cs336.charts.ChartStyle;
import cs336.charts.Figure;
import cs336.charts.Frame;
import cs336.charts.HorizontalScale;
import cs336.charts.LawPanel;
import cs336.charts.Legend;
import cs336.charts.Spacing;
import cs336.numbers.MeasurementQuery;
import cs336.scaling.laws.FitMethod;
import cs336.scaling.laws.IsoFlopProfile;
import cs336.scaling.laws.IsoFlops;
import cs336.scaling.laws.Optimum;
import cs336.scaling.laws.Parabola;
import cs336.scaling.laws.PowerLaw;
import cs336.scaling.laws.TrainingRun;
import java.awt.Color;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.DoublePredicate;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;
import org.knowm.xchart.style.markers.SeriesMarkers;
import tech.tablesaw.api.Row;

/**
 * The figures of the chapter on scaling laws, from training runs and from results of {@code cs336 isoflops --store}.
 */
public final class IsoFlopsFigures {
    private static final List<Double> PREDICTED_BUDGETS = List.of(1e23, 1e24);
    private static final int CURVE_POINTS = 40;

    private IsoFlopsFigures() {}

    /** The compute-optimal size that a figure shows. */
    private enum OptimalSize {
        PARAMETERS("model size N (parameters)"),
        TOKENS("data size D (tokens)");

        private final String title;

        OptimalSize(String title) {
            this.title = title;
        }

        private double of(Optimum optimum) {
            return this == PARAMETERS ? optimum.parameters() : optimum.tokens();
        }

        private String metric() {
            return this == PARAMETERS ? "parameters" : "tokens";
        }
    }

    /** Values by compute budget, in ascending order of the budget. */
    private record BudgetColumn(double[] compute, double[] values) {
        private BudgetColumn where(DoublePredicate budget) {
            int[] at = IntStream.range(0, compute.length)
                    .filter(i -> budget.test(compute[i]))
                    .toArray();
            return new BudgetColumn(
                    Arrays.stream(at).mapToDouble(i -> compute[i]).toArray(),
                    Arrays.stream(at).mapToDouble(i -> values[i]).toArray());
        }
    }

    /** Plots the losses of each compute budget by model size, with a parabola fit and the lowest run. */
    public static Figure curves(IsoFlops runs) {
        List<IsoFlopProfile> profiles = runs.profiles();
        double[] sizes =
                runs.runs().stream().mapToDouble(TrainingRun::parameters).toArray();
        double[] losses = runs.runs().stream().mapToDouble(TrainingRun::loss).toArray();
        double[] range = DoubleStream.concat(
                        Arrays.stream(sizes),
                        DoubleStream.of(Arrays.stream(sizes).max().orElseThrow() * 2)) // space for the last label
                .toArray();
        var panel = new LawPanel(
                new Frame("", false, Legend.NONE, false, "model size N (parameters)"),
                HorizontalScale.of(range, Spacing.LOG10),
                AxisRange.of(losses, false, false),
                "final training loss (nats per token)");
        for (int i = 0; i < profiles.size(); i++) {
            IsoFlopProfile profile = profiles.get(i);
            Color color = between(
                    ChartStyle.color(0), ChartStyle.color(1), profiles.size() < 2 ? 0 : i / (profiles.size() - 1.0));
            double[] n =
                    profile.runs().stream().mapToDouble(TrainingRun::parameters).toArray();
            double[] loss =
                    profile.runs().stream().mapToDouble(TrainingRun::loss).toArray();
            Parabola parabola = profile.parabola();
            double[] along = spread(n[0], n[n.length - 1]);
            double[] fitted =
                    Arrays.stream(along).map(x -> parabola.at(Math.log(x))).toArray();
            String name = ChartStyle.number(profile.compute());
            TrainingRun lowest = profile.lowest();
            panel.curve("parabola " + name, color, false, along, fitted)
                    .points("runs " + name, color, SeriesMarkers.CIRCLE, n, loss)
                    .points(
                            "lowest " + name,
                            ChartStyle.INK,
                            SeriesMarkers.DIAMOND,
                            new double[] {lowest.parameters()},
                            new double[] {lowest.loss()})
                    .label(name, color, along[CURVE_POINTS - 1], fitted[CURVE_POINTS - 1]);
        }
        return new Figure(
                "isoflops-curves",
                "Final training loss over the model size for " + profiles.size()
                        + " compute budgets in FLOP: points are"
                        + " runs, curves the parabolas through the runs of each budget, diamonds the lowest run of each",
                760,
                460,
                List.of(panel));
    }

    /**
     * Plots the compute-optimal model size by compute budget up to 10²⁴ FLOP, one panel per method.
     *
     * @param runs name under which the results are stored
     * @param reference a law to compare the methods with
     * @param label label of that law
     */
    public static Figure modelSize(MeasurementQuery numbers, String runs, PowerLaw reference, String label) {
        return laws(numbers, runs, OptimalSize.PARAMETERS, reference, label, "isoflops-model-size-" + runs);
    }

    /** Plots the compute-optimal data size in the same way as {@link #modelSize}. */
    public static Figure dataSize(MeasurementQuery numbers, String runs, PowerLaw reference, String label) {
        return laws(numbers, runs, OptimalSize.TOKENS, reference, label, "isoflops-data-size-" + runs);
    }

    private static Figure laws(
            MeasurementQuery measurements,
            String runs,
            OptimalSize size,
            PowerLaw reference,
            String label,
            String name) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        List<Double> computes = new ArrayList<>();
        List<Double> values = new ArrayList<>();
        for (FitMethod method : FitMethod.values()) {
            for (String end : List.of("-low", "-high")) {
                BudgetColumn column = law(numbers, runs, method, size.metric() + end);
                Arrays.stream(column.compute).forEach(computes::add);
                Arrays.stream(column.values).forEach(values::add);
            }
        }
        var scale = HorizontalScale.of(array(computes), Spacing.LOG10);
        AxisRange range = AxisRange.of(array(values), true, false);
        int width = 980;
        var legend = new Legend(
                "",
                List.of("one minimum per budget, fitted law (dashed: extrapolated), 95 % interval", label),
                (width - 80.0) * ChartStyle.UNITS);
        List<LawPanel> panels = new ArrayList<>();
        for (FitMethod method : FitMethod.values()) {
            boolean first = panels.isEmpty();
            var frame = new Frame(title(method), true, legend, first, "compute budget C (FLOP)");
            var panel = new LawPanel(frame, scale, range, first ? size.title : "");
            panels.add(draw(panel, numbers, runs, method, size, reference, label));
        }
        return new Figure(
                        name,
                        "Compute-optimal " + size.title
                                + " over the compute budget to 1e24 FLOP by three methods, each with the minima"
                                + " it found, its law and the law's 95 % interval, next to the " + label,
                        width,
                        380,
                        panels)
                .withOrigin(numbers.origin());
    }

    private static LawPanel draw(
            LawPanel panel,
            MeasurementQuery numbers,
            String runs,
            FitMethod method,
            OptimalSize size,
            PowerLaw reference,
            String label) {
        BudgetColumn law = law(numbers, runs, method, size.metric());
        BudgetColumn low = law(numbers, runs, method, size.metric() + "-low");
        BudgetColumn high = law(numbers, runs, method, size.metric() + "-high");
        Color color = ChartStyle.color(0);
        double[] budgets = budgets(numbers, runs);
        double last = budgets[budgets.length - 1];
        panel.band(color, law.compute, low.values, high.values)
                .curve(label, ChartStyle.color(1), false, law.compute, sizes(size, law.compute, reference));
        BudgetColumn within = law.where(c -> c <= last);
        BudgetColumn beyond = law.where(c -> c >= last);
        panel.curve("law", color, false, within.compute, within.values)
                .curve("extrapolation", color, true, beyond.compute, beyond.values);
        if (method != FitMethod.LOSS_SURFACE) {
            BudgetColumn found = column(numbers, runs, method, "minimum");
            double[] at = IntStream.range(0, found.compute.length)
                    .mapToDouble(i -> size.of(new Optimum(found.compute[i], found.values[i])))
                    .toArray();
            panel.points("minima", color, SeriesMarkers.CIRCLE, found.compute, at);
        }
        double[] budgetsToPredict = array(PREDICTED_BUDGETS);
        double[] predicted =
                Arrays.stream(budgetsToPredict).map(c -> value(law, c)).toArray();
        return panel.points("predictions", color, SeriesMarkers.DIAMOND, budgetsToPredict, predicted);
    }

    private static double[] sizes(OptimalSize size, double[] computes, PowerLaw law) {
        return Arrays.stream(computes).map(c -> size.of(law.at(c))).toArray();
    }

    private static double value(BudgetColumn column, double compute) {
        for (int i = 0; i < column.compute.length; i++) {
            if (column.compute[i] == compute) {
                return column.values[i];
            }
        }
        throw new IllegalArgumentException("no value is stored for a budget of " + compute + " FLOP");
    }

    /** Returns the budgets of the runs in ascending order. */
    private static double[] budgets(MeasurementQuery numbers, String runs) {
        return column(numbers, runs, FitMethod.LOWEST_RUN, "minimum").compute;
    }

    /** Returns a law or an end of its interval, from the first budget of the runs on. */
    private static BudgetColumn law(MeasurementQuery numbers, String runs, FitMethod method, String metric) {
        double first = budgets(numbers, runs)[0];
        return column(numbers, runs, method, metric).where(c -> c >= first);
    }

    private static BudgetColumn column(MeasurementQuery numbers, String runs, FitMethod method, String metric) {
        var found = numbers.select(
                "isoflops_optima@any[runs=%s, implementation=%s, metric=%s]".formatted(runs, method, metric));
        List<double[]> pairs = new ArrayList<>();
        for (Row row : found) {
            pairs.add(new double[] {row.getDouble("compute"), row.getDouble("mean")});
        }
        pairs.sort(Comparator.comparingDouble(pair -> pair[0]));
        return new BudgetColumn(
                pairs.stream().mapToDouble(pair -> pair[0]).toArray(),
                pairs.stream().mapToDouble(pair -> pair[1]).toArray());
    }

    /** Returns the stored law of a method. */
    public static PowerLaw law(MeasurementQuery numbers, String runs, FitMethod method) {
        String of = "isoflops_laws@any[runs=%s, implementation=%s, metric=%%s].mean".formatted(runs, method);
        return new PowerLaw(
                numbers.quantity(of.formatted("coefficient")).value(),
                numbers.quantity(of.formatted("exponent")).value());
    }

    private static String title(FitMethod method) {
        return switch (method) {
            case LOWEST_RUN -> "lowest run";
            case QUADRATIC_MINIMA -> "minimum of a parabola";
            case LOSS_SURFACE -> "loss surface";
        };
    }

    private static double[] array(List<Double> values) {
        return values.stream().mapToDouble(Double::doubleValue).toArray();
    }

    /** Returns logarithmically spaced values. */
    private static double[] spread(double from, double to) {
        return IntStream.range(0, CURVE_POINTS)
                .mapToDouble(i -> from * Math.pow(to / from, i / (CURVE_POINTS - 1.0)))
                .toArray();
    }

    private static Color between(Color from, Color to, double fraction) {
        return new Color(
                (int) Math.round(from.getRed() + fraction * (to.getRed() - from.getRed())),
                (int) Math.round(from.getGreen() + fraction * (to.getGreen() - from.getGreen())),
                (int) Math.round(from.getBlue() + fraction * (to.getBlue() - from.getBlue())));
    }
}
