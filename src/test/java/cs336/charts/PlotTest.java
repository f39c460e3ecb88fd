package cs336.charts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.numbers.MadeUpMeasurements;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.knowm.xchart.internal.chartpart.AxesChart;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

class PlotTest {
    private static final double[] STEPS = {1, 2, 3};

    private static Plot line(double... y) {
        return Charts.line(Charts.table(STEPS, Map.of("a", y))).x("x", "step").y("y", "time (ms)");
    }

    private static double height(Figure figure, double value) {
        figure.svg();
        return ((AxesChart<?, ?>) figure.chart()).getScreenYFromChart(value);
    }

    @Test
    void equalRatiosAreEqualDistancesOnALogarithmicAxisAndNotOnALinearOne() {
        Figure log = line(1, 10, 100).logY().figure("log", "made up");
        assertEquals(height(log, 1) - height(log, 10), height(log, 10) - height(log, 100), 1e-6);
        Figure linear = line(1, 10, 100).figure("linear", "made up");
        assertEquals(10 * (height(linear, 1) - height(linear, 10)), height(linear, 10) - height(linear, 100), 1e-6);
    }

    @Test
    void errorBarsOfBarsOnALogarithmicAxisEndAtMeanPlusAndMinusError() {
        Table table = MadeUpMeasurements.sweep("forward");
        Figure figure = Charts.bar(table.where(table.intColumn("context").isEqualTo(512)))
                .x("size", "model size")
                .y("mean", "time (ms)")
                .error("std")
                .logY()
                .figure("bars", "made up");
        String svg = figure.svg();
        // small: 8 ± 0.8
        String low = Figure.twoDecimals(height(figure, 7.2));
        String high = Figure.twoDecimals(height(figure, 8.8));
        assertTrue(svg.matches("(?s).*<line x1='([\\d.]+)' y1='" + low + "' x2='\\1' y2='" + high + "'.*"));
    }

    /** A case that is measured again moves to the end of its file. */
    @Test
    void numbersAscendInEveryRowOrder() {
        Table inOrder = MadeUpMeasurements.sweep("forward");
        Table moved = inOrder.where(inOrder.intColumn("context").isNotEqualTo(128))
                .append(inOrder.where(inOrder.intColumn("context").isEqualTo(128)));
        for (String[] columns : new String[][] {{"size", "context"}, {"context", "size"}}) {
            String[] svg = Stream.of(inOrder, moved)
                    .map(table -> Charts.bar(table)
                            .x(columns[0], "")
                            .y("mean", "time (ms)")
                            .by(columns[1])
                            .figure("bars", "made up")
                            .svg())
                    .toArray(String[]::new);
            assertEquals(svg[0], svg[1]);
        }
    }

    @Test
    void zerosHaveAnAxis() {
        Table table = Charts.table(STEPS, Map.of("a", new double[3]));
        for (Plot plot : new Plot[] {Charts.bar(table), Charts.line(table), Charts.scatter(table)}) {
            Figure figure = plot.x("x", "step").y("y", "lost messages").figure("zeros", "made up");
            assertTrue(height(figure, 0) > height(figure, 0.5), "the axis ends above 0");
        }
    }

    @Test
    void valuesThatAreNotFiniteAreNamed() {
        String y = assertThrows(
                        IllegalArgumentException.class,
                        () -> line(1, Double.POSITIVE_INFINITY, 2).figure("infinite", "made up"))
                .getMessage();
        assertEquals(
                "figure infinite: column y has the value Infinity; values of a chart must be finite, so filter the table",
                y);
        assertThrows(
                IllegalArgumentException.class,
                () -> line(1, Double.POSITIVE_INFINITY, 2).logY().figure("infinite", "made up"));
        Table withoutX = Table.create(DoubleColumn.create("x", 1, Double.NaN), DoubleColumn.create("y", 1, 2));
        String x = assertThrows(
                        IllegalArgumentException.class,
                        () -> Charts.line(withoutX)
                                .x("x", "step")
                                .y("y", "time (ms)")
                                .figure("missing", "made up"))
                .getMessage();
        assertTrue(x.startsWith("figure missing: column x has the value NaN; "), x);
        String level = assertThrows(
                        IllegalArgumentException.class,
                        () -> line(1, 2, 3).level(Double.NaN, "limit").figure("level", "made up"))
                .getMessage();
        assertTrue(level.startsWith("figure level: a reference line has the value NaN; "), level);
    }

    @Test
    void theAxisOfStackedBarsContainsTheirSums() {
        Table table = Table.create(
                StringColumn.create("bar", "one", "one", "two"),
                StringColumn.create("part", "a", "b", "a"),
                DoubleColumn.create("ms", 20, 25, 7));
        Figure figure = Charts.bar(table)
                .x("bar", "")
                .y("ms", "time (ms)")
                .by("part")
                .stacked()
                .figure("stacked", "made up");
        double max = ((AxesChart<?, ?>) figure.chart()).getStyler().getYAxisMax();
        assertTrue(max >= 45 && max < 70, "axis up to " + max);
        var plot = Charts.bar(table)
                .x("bar", "")
                .y("ms", "time (ms)")
                .error("ms")
                .by("part")
                .stacked();
        assertThrows(IllegalArgumentException.class, () -> plot.figure("stacked", "made up"));
    }

    @Test
    void panelsHaveTheSameVerticalAxis() {
        Figure figure = MadeUpMeasurements.figures().get(0);
        figure.svg();
        assertEquals(3, figure.panels().size());
        var first = (AxesChart<?, ?>) figure.panels().get(0);
        var last = (AxesChart<?, ?>) figure.panels().get(2);
        assertEquals(first.getScreenYFromChart(100), last.getScreenYFromChart(100));
    }

    @Test
    void aMissingBarShowsItsStatus() {
        Table ok = MadeUpMeasurements.sweep("forward");
        Table oom = MadeUpMeasurements.sweep("step");
        var sizes = new TreeMap<Integer, String>();
        for (Table table : new Table[] {ok, oom}) {
            Figure figure = Charts.bar(table)
                    .x("size", "size")
                    .y("mean", "ms")
                    .by("context")
                    .figure("bars", "made up");
            sizes.put(figure.svg().split("rgb\\(142,84,116\\)", -1).length, table.name());
        }
        assertEquals(2, sizes.size(), "OOM is written once, in the dark colour of the fourth series: " + sizes);
    }

    @Test
    void numbersOfSeriesPanelsAndBarsAreWrittenLikeThoseOfAxes() {
        Table table = Table.create(
                IntColumn.create("context", 1024, 65_536),
                StringColumn.create("commit", "1234567", "1234567"),
                IntColumn.create("year", 2024, 2025),
                DoubleColumn.create("ms", 1290.8, 7));
        String texts = Charts.bar(table)
                .x("context", "context (tokens)")
                .y("ms", "time (ms)")
                .by("year")
                .rename("2024", "spring 2024")
                .rename("2025", "spring 2025")
                .panels("commit")
                .figure("bars", "made up")
                .hoverTexts()
                .texts()
                .toString();
        assertTrue(texts.contains("1234567, spring 2024\ncontext (tokens): 1,024\ntime (ms): 1,291"), texts);
        assertTrue(texts.contains("1234567, spring 2025\ncontext (tokens): 65,536\ntime (ms): 7"), texts);
        String lines = Charts.line(table)
                .x("ms", "time (ms)")
                .y("ms", "time (ms)")
                .by("context")
                .figure("lines", "made up")
                .hoverTexts()
                .texts()
                .toString();
        assertTrue(lines.contains("text=65,536\ntime (ms): 7"), lines);
    }

    @Test
    void twoRowsForOnePointAreRejected() {
        var error = assertThrows(
                IllegalArgumentException.class,
                () -> Charts.line(MadeUpMeasurements.sweep())
                        .x("context", "context")
                        .y("mean", "ms")
                        .by("size")
                        .figure("lines", "made up"));
        assertEquals(
                "figure lines: two rows have size=small, context=128; filter the table so that one remains",
                error.getMessage());
    }

    @Test
    void valuesOnALogarithmicAxisMustBePositive() {
        var error = assertThrows(
                IllegalArgumentException.class, () -> line(1, 0, 2).logY().figure("log", "made up"));
        assertEquals(
                "figure log: column y has the value 0.0; values on a logarithmic axis must be positive",
                error.getMessage());
        assertThrows(
                IllegalArgumentException.class,
                () -> Charts.line(Charts.table(new double[] {-1, 1}, Map.of("a", new double[] {1, 2})))
                        .x("x", "x")
                        .y("y", "y")
                        .log2X()
                        .figure("log", "made up"));
    }

    @Test
    void unknownAndNonNumericColumnsAreNamed() {
        var unknown = assertThrows(
                IllegalArgumentException.class,
                () -> Charts.bar(MadeUpMeasurements.sweep()).x("sice", "size"));
        assertTrue(unknown.getMessage().contains("\"sice\"")
                && unknown.getMessage().contains("size, context"));
        assertThrows(
                IllegalArgumentException.class,
                () -> Charts.bar(MadeUpMeasurements.sweep()).y("metric", "?"));
        assertThrows(
                IllegalArgumentException.class,
                () -> Charts.line(MadeUpMeasurements.sweep()).x("size", "size"));
        assertThrows(
                IllegalArgumentException.class,
                () -> Charts.line(MadeUpMeasurements.sweep()).figure("lines", "made up"));
    }

    @Test
    void tooManySeriesAndMissingGlyphsAreRejected() {
        var many = new TreeMap<String, double[]>();
        for (int i = 0; i < 8; i++) {
            many.put("series " + i, new double[] {i, i, i});
        }
        Plot plot =
                Charts.line(Charts.table(STEPS, many)).x("x", "x").y("y", "y").by("series");
        assertThrows(IllegalArgumentException.class, () -> plot.figure("many", "made up"));
        var error = assertThrows(
                IllegalArgumentException.class, () -> line(1, 2, 3).title("∇").figure("letters", "made up"));
        assertTrue(error.getMessage().contains("U+2207"), error.getMessage());
    }

    @Test
    void arraysOfDifferentLengthsAreRejected() {
        assertThrows(IllegalArgumentException.class, () -> Charts.table(STEPS, Map.of("a", new double[] {1, 2})));
    }

    @Test
    void constantValuesCanBeDrawn() {
        assertTrue(line(5, 5, 5).figure("flat", "made up").svg().length() > 1000);
        assertTrue(line(5, 5, 5).logY().figure("flat", "made up").svg().length() > 1000);
    }

    @Test
    void aScatterMayHaveSeveralPointsAtOneX() {
        Table table = Charts.table(new double[] {1, 1, 2}, Map.of("dots", new double[] {3, 4, 5}));
        Figure figure =
                Charts.scatter(table).x("x", "x").y("y", "y").by("series").figure("dots", "Three dots");
        assertTrue(figure.svg().length() > 0);
        assertThrows(
                IllegalArgumentException.class,
                () -> Charts.line(table).x("x", "x").y("y", "y").by("series").figure("dots", "Three dots"));
    }
}
