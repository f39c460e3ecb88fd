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
