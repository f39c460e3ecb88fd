package cs336.charts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.awt.Color;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.knowm.xchart.internal.chartpart.AxesChart;
import org.knowm.xchart.style.markers.SeriesMarkers;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

class HoverTextsTest {
    private static Table measured() {
        return Table.create(
                StringColumn.create("size", "small", "small", "</script>", "</script>"),
                DoubleColumn.create("context", 128, 256, 128, 256),
                DoubleColumn.create("mean", 1.25, 2, 40.0625, 80),
                StringColumn.create("device", "H200", "H200", "H200", "H200"),
                StringColumn.create("commit", "abc1234", "abc1234", "abc1234", "abc1234"));
    }

    private static Plot plot(Plot plot) {
        return plot.x("context", "context (tokens)").y("mean", "time (ms)").by("size");
    }

    /** Returns the height of a figure in drawing units. */
    private static double units(Figure figure) {
        return ChartStyle.UNITS
                * Double.parseDouble(figure.svg().replaceFirst("(?s).*? height=[\"']([\\d.]+).*", "$1"));
    }

    @Test
    void aPointHasItsCaseValueMachineAndCommitWhereItIsDrawn() {
        Figure figure = plot(Charts.line(measured())).figure("line", "made up");
        List<HoverTexts.HoverText> texts = figure.hoverTexts().texts();
        assertEquals(4, texts.size());
        HoverTexts.HoverText first = texts.get(0);
        assertEquals("small\ncontext (tokens): 128\ntime (ms): 1.25\nH200, commit abc1234", first.text());
        double y = ((AxesChart<?, ?>) figure.chart()).getScreenYFromChart(1.25);
        assertEquals(y, first.y() * units(figure), 1e-6);
    }

    @Test
    void theTextOfABarIsAsTallAsTheBar() {
        Figure figure = plot(Charts.bar(measured())).figure("bars", "made up");
        double units = units(figure);
        AxesChart<?, ?> chart = (AxesChart<?, ?>) figure.chart();
        List<HoverTexts.HoverText> texts = figure.hoverTexts().texts();
        assertEquals(4, texts.size());
        for (HoverTexts.HoverText text : texts) {
            double value = Double.parseDouble(text.text().replaceFirst("(?s).*\\(ms\\): ([\\d.]+).*", "$1"));
            double height = chart.getScreenYFromChart(0) - chart.getScreenYFromChart(value);
            assertEquals(height, text.height() * units, 0.1);
            assertTrue(text.width() > 0);
        }
    }

    @Test
    void theTextOfAPointBelowATitleIsWhereThePointIsDrawn() {
        Figure figure = plot(Charts.line(measured()).title("Steps")).figure("line", "made up");
        HoverTexts.HoverText first = figure.hoverTexts().texts().get(0);
        double y = ((AxesChart<?, ?>) figure.chart()).getScreenYFromChart(1.25);
        int title = new Frame("Steps", true, Legend.NONE, true, "").top();
        assertEquals(title + y, first.y() * units(figure), 1e-6);
    }

    @Test
    void barsOfAGroupAreSideBySideAndStackedOnesOnEachOther() {
        List<HoverTexts.HoverText> grouped = plot(Charts.bar(measured()))
                .figure("bars", "made up")
                .hoverTexts()
                .texts(); // both bars of a series, then both of the next one
        List<HoverTexts.HoverText> stacked = plot(Charts.bar(measured()).stacked())
                .figure("stacked", "made up")
                .hoverTexts()
                .texts();
        for (int context = 0; context < 2; context++) {
            HoverTexts.HoverText left = grouped.get(context);
            HoverTexts.HoverText right = grouped.get(context + 2);
            assertEquals(left.x() + left.width(), right.x(), 1e-9);
            HoverTexts.HoverText lower = stacked.get(context);
            HoverTexts.HoverText upper = stacked.get(context + 2);
            assertEquals(lower.x(), upper.x(), 1e-9);
            assertEquals(lower.y(), upper.y() + upper.height(), 1e-6);
            double ratio = context == 0 ? 40.0625 / 1.25 : 80 / 2.0;
            assertEquals(1, upper.height() / lower.height() / ratio, 1e-3);
            assertEquals(lower.x() + lower.width() / 2, right.x(), 0.01, "both have the same centre");
        }
    }

    private static List<String> texts(AxesChart<?, ?> panel) {
        return new Figure("panel", "made up", 640, 380, List.of(panel))
                .hoverTexts().texts().stream().map(HoverTexts.HoverText::text).toList();
    }

    @Test
    void stackedAreasHaveTheirIntervalHeightsAndTotal() {
        double[] x = {0, 1, 2};
        HorizontalScale scale = HorizontalScale.of(x, Spacing.LINEAR);
        var panel = new AreaPanel(
                new Frame("", false, Legend.NONE, true, "time (ms)"),
                scale,
                AxisRange.of(new double[] {0, 7}, false, true),
                "memory (MB)",
                List.of(new AreaPanel.AxisSpan("forward", 0, 1), new AreaPanel.AxisSpan("backward", 1, 2)),
                List.of());
        scale.applyTo(panel.getStyler());
        panel.stack(List.of("weights", "activations"), x, new double[][] {{1, 2, 3}, {4, 5, 0}}, "MB");
        assertEquals(
                List.of(
                        "forward\nactivations: 4 MB\nweights: 1 MB\ntotal: 5 MB",
                        "backward\nactivations: 5 MB\nweights: 2 MB\ntotal: 7 MB",
                        "weights: 3 MB\ntotal: 3 MB"),
                texts(panel));
    }

    @Test
    void pointsOnALogarithmicAxisHaveTheirValues() {
        double[] x = {10, 1000};
        var panel = new LawPanel(
                new Frame("", false, Legend.NONE, true, "FLOP"),
                HorizontalScale.of(x, Spacing.LOG10),
                AxisRange.of(new double[] {1, 2}, false, true),
                "loss");
        panel.points("runs", Color.BLUE, SeriesMarkers.CIRCLE, x, new double[] {1, 2});
        assertEquals(List.of("runs\nFLOP: 10\nloss: 1", "runs\nFLOP: 1,000\nloss: 2"), texts(panel));
    }

    @Test
    void pointsOfADerivedTableNameItsOrigin() {
        Figure figure = plot(Charts.line(measured().removeColumns("device", "commit")))
                .origin("H200, commit abc1234")
                .figure("line", "made up");
        for (HoverTexts.HoverText text : figure.hoverTexts().texts()) {
            assertTrue(text.text().endsWith("\nsource: H200, commit abc1234"), text.text());
        }
    }

    @Test
    void axesAreThoseOfThePlot() {
        String lines = plot(Charts.line(measured()).log2X().logY())
                .figure("line", "made up")
                .hoverTexts()
                .scripts();
        // Both axes have numbers, are logarithmic, and extend a little beyond the points.
        assertTrue(lines.matches("(?s)<script [^>]*>\\{\"marks\":\\[\\[.*\\]\\],\"axes\":\\[\\[.*"), lines);
        String[] ends = lines.replaceFirst("(?s).*\"axes\":\\[\\[(.*?)\\]\\]\\].*", "$1")
                .split("[,\\[\\]]+");
        assertEquals(128, Double.parseDouble(ends[4]), 4);
        assertEquals(256, Double.parseDouble(ends[5]), 8);
        assertEquals("true", ends[6]);
        assertEquals(1, Double.parseDouble(ends[7]), 0.1);
        assertEquals(100, Double.parseDouble(ends[8]), 10);
        assertEquals("true", ends[9]);

        Table bars = measured();
        String categories =
                plot(Charts.bar(bars)).figure("bars", "made up").hoverTexts().scripts();
        assertTrue(categories.matches("(?s).*\"axes\":\\[\\[\\d+,\\d+,\\d+,\\d+,\\[\\],\\[.*"), categories);
    }

    @Test
    void noTextEndsTheScript() {
        String scripts = plot(Charts.line(measured()))
                .figure("line", "made up")
                .hoverTexts()
                .scripts();
        assertEquals(2, scripts.split("</script>", -1).length - 1);
    }

    @Test
    void textsDoNotChangeTheSvg() {
        Figure figure = plot(Charts.line(measured())).figure("line", "made up");
        String before = figure.svg();
        figure.hoverTexts();
        assertEquals(before, figure.svg());
        assertFalse(before.contains("H200"));
    }
}
