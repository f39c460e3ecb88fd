package cs336.charts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.knowm.xchart.internal.chartpart.AxesChart;
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
