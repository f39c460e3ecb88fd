package cs336.figures;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.Project;
import cs336.charts.ChartStyle;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.scaling.laws.FitMethod;
import cs336.scaling.laws.PowerLaw;
import cs336.scaling.laws.SyntheticRuns;
import java.util.Arrays;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.knowm.xchart.XYChart;

class IsoFlopsFiguresTest {
    private static final PowerLaw TRUTH = SyntheticRuns.SHIPPED.surface().law();

    private final MeasurementQuery numbers = MeasurementQuery.of(Project.path("data/measurements/any"));

    private static XYChart panel(Figure figure, FitMethod method) {
        return (XYChart) figure.panels().get(method.ordinal());
    }

    @Test
    void everyPanelExtrapolatesTo1e24AndShowsThePredictionsThere() {
        Figure figure = IsoFlopsFigures.modelSize(numbers, "published", TRUTH, "another law");
        for (FitMethod method : FitMethod.values()) {
            XYChart panel = panel(figure, method);
            double[] x = panel.getSeries("extrapolation").getXData();
            assertEquals(24, x[x.length - 1], 1e-12);
            assertTrue(panel.getSeries("law").getXData()[0] > 18, "nothing before the first runs, of 6e18 FLOP");
            double[] predicted = panel.getSeries("predictions").getYData();
            for (int i = 0; i < 2; i++) {
                double compute = i == 0 ? 1e23 : 1e24;
                double law = IsoFlopsFigures.law(numbers, "published", method)
                        .at(compute)
                        .parameters();
                assertEquals(1, predicted[i] / law, 1e-6, method + " at " + compute);
            }
        }
    }

    @Test
    void dataSizesAreTheBudgetOverSixTimesTheModelSizes() {
        Figure models = IsoFlopsFigures.modelSize(numbers, "shipped", TRUTH, "true law");
        Figure data = IsoFlopsFigures.dataSize(numbers, "shipped", TRUTH, "true law");
        for (FitMethod method : FitMethod.values()) {
            for (var of : panel(models, method).getSeriesCollection()) {
                double[] n = of.getYData();
                double[] d = panel(data, method).getSeries(of.getName()).getYData();
                for (int i = 0; i < n.length; i++) {
                    double compute = Math.pow(10, of.getXData()[i]);
                    assertEquals(1, 6 * n[i] * d[i] / compute, 1e-6, method + " " + of.getName());
                }
            }
        }
    }

    @Test
    void curvesPassTheirRunsAndMarkTheLowest() {
        var runs = SyntheticRuns.SHIPPED.draw();
        var chart = (XYChart) IsoFlopsFigures.curves(runs).chart();
        for (var profile : runs.profiles()) {
            String name = ChartStyle.number(profile.compute());
            double[] losses = chart.getSeries("runs " + name).getYData();
            double[] lowest = chart.getSeries("lowest " + name).getYData();
            assertArrayEquals(new double[] {Arrays.stream(losses).min().orElseThrow()}, lowest);
            double[] ends = chart.getSeries("parabola " + name).getYData();
            assertEquals(losses[0], ends[0], 0.02);
            assertEquals(losses[losses.length - 1], ends[ends.length - 1], 0.02);
        }
    }

    @Test
    void figuresDoNotDependOnTheLocale() {
        String svg =
                IsoFlopsFigures.dataSize(numbers, "shipped", TRUTH, "true law").svg();
        Locale before = Locale.getDefault();
        try {
            Locale.setDefault(Locale.forLanguageTag("ar-SA")); // has its own digits
            assertEquals(
                    svg,
                    IsoFlopsFigures.dataSize(numbers, "shipped", TRUTH, "true law")
                            .svg());
        } finally {
            Locale.setDefault(before);
        }
    }

    @Test
    void unknownRunsAreReportedWithTheStoredOnes() {
        var error = assertThrows(
                IllegalArgumentException.class, () -> IsoFlopsFigures.modelSize(numbers, "mine", TRUTH, "true law"));
        assertTrue(error.getMessage().contains("runs is shipped, published there"), error.getMessage());
    }
}
