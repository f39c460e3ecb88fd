package cs336.profile.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.charts.Figure;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.knowm.xchart.XYChart;

class MemoryTimelineChartTest {
    private static final MemoryTimeline TIMELINE = new MemoryTimeline(
            List.of(point(10, 1), point(11, 2), point(12, 4), point(13, 1)),
            List.of(new MemoryPhase("forward", 10, 12), new MemoryPhase("backward", 12, 14)));

    private static MemoryTimeline.MemoryPoint point(int event, long activations) {
        return new MemoryTimeline.MemoryPoint(
                event, List.of(5_000_000L, 0L, 0L, activations * 1_000_000, 0L, 1_000_000L));
    }

    @Test
    void areasAreStackedInMegabytes() {
        Figure figure = MemoryTimelineChart.of(TIMELINE, "memory", "made up");
        figure.svg();
        var chart = (XYChart) figure.chart();
        assertEquals(5.0, chart.getSeries("parameters").getYData()[2]);
        assertEquals(9.0, chart.getSeries("activations").getYData()[2]);
        assertEquals(10.0, chart.getSeries("other").getYData()[2]);
        assertEquals(0.0, chart.getSeries("other").getXData()[0]);
    }

    @Test
    void theFigureIsDeterministicAndPanelsShareTheirAxis() {
        Map<String, MemoryTimeline> two = new LinkedHashMap<>();
        two.put("a", TIMELINE);
        two.put("b", new MemoryTimeline(List.of(point(0, 40), point(1, 3)), List.of()));
        Figure figure = MemoryTimelineChart.of(two, "memory", "made up");
        assertEquals(
                figure.svg(), MemoryTimelineChart.of(two, "memory", "made up").svg());
        var first = (XYChart) figure.panels().get(0);
        var second = (XYChart) figure.panels().get(1);
        assertEquals(first.getScreenYFromChart(20), second.getScreenYFromChart(20));
    }

    @Test
    void memoryAboveTheParametersHasOneAxisPerPanel() {
        Map<String, MemoryTimeline> two = new LinkedHashMap<>();
        two.put("a", TIMELINE);
        two.put("b", new MemoryTimeline(List.of(point(0, 40), point(1, 3)), List.of()));
        Figure figure = MemoryTimelineChart.aboveParameters(two, "memory", "made up");
        figure.svg();
        var first = (XYChart) figure.panels().get(0);
        var second = (XYChart) figure.panels().get(1);
        assertEquals(0.0, first.getSeries("parameters").getYData()[2]);
        assertEquals(4.0, first.getSeries("activations").getYData()[2]);
        assertEquals(41.0, second.getSeries("other").getYData()[0]);
        assertTrue(first.getStyler().getYAxisMax() < 10 && second.getStyler().getYAxisMax() > 41);
    }

    @Test
    void aFigureNeedsATimeline() {
        assertTrue(assertThrows(
                        IllegalArgumentException.class, () -> MemoryTimelineChart.of(Map.of(), "memory", "made up"))
                .getMessage()
                .contains("at least one timeline"));
    }
}
