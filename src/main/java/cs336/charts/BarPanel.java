package cs336.charts;

import java.awt.Color;
import java.awt.Graphics2D;
import java.awt.geom.Rectangle2D;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.knowm.xchart.CategoryChart;
import org.knowm.xchart.CategorySeries;

/**
 * A grouped bar chart with a note in place of each missing bar. It draws its own error bars because XChart's are wrong
 * on a logarithmic axis, where it takes the logarithm of the error.
 */
final class BarPanel extends CategoryChart {
    private final Frame frame;
    private final List<String> categories;
    private final AxisRange range;
    private final List<Mark.ReferenceLine> referenceLines;
    private final Map<String, Mark.MeasuredValue[]> measured = new LinkedHashMap<>();
    private final Map<String, String[]> notes = new LinkedHashMap<>();

    BarPanel(Frame frame, List<String> categories, AxisRange range, List<Mark.ReferenceLine> referenceLines) {
        super(ChartStyle.WIDTH, ChartStyle.HEIGHT);
        this.frame = frame;
        this.categories = categories;
        this.range = range;
        this.referenceLines = referenceLines;
    }

    /** Adds a series with one bar per category; a note replaces each bar whose value is NaN. */
    void add(String name, int color, Mark.MeasuredValue[] y, String[] note) {
        var values = new ArrayList<Double>();
        for (Mark.MeasuredValue value : y) {
            values.add(Double.isNaN(value.value()) ? null : value.value());
        }
        CategorySeries series = addSeries(name, categories, values);
        series.setFillColor(ChartStyle.color(color));
        series.setLineColor(ChartStyle.color(color));
        measured.put(name, y);
        notes.put(name, note);
    }

    @Override
    public void paint(Graphics2D g, int width, int height) {
        frame.paintPanel(g, width, height, plotHeight -> {
            super.paint(g, width, plotHeight);
            var ticks = new ArrayList<Frame.Tick>();
            for (int c = 0; c < categories.size(); c++) {
                ticks.add(new Frame.Tick(plot.getBounds().getX() + groupWidth() * (c + 0.5), categories.get(c)));
            }
            frame.paint(g, plot.getBounds(), ticks);
            paintErrorBarsAndNotes(g);
            addHoverTexts(g);
            HoverTexts.addAxes(g, this, plot.getBounds(), null, true);
            Mark.drawReferenceLines(g, referenceLines, this, plot.getBounds());
        });
    }

    private double groupWidth() {
        return plot.getBounds().getWidth() / categories.size();
    }

    /** Adds a text to each bar. */
    private void addHoverTexts(Graphics2D g) {
        double fill = getStyler().getAvailableSpaceFill();
        boolean stacked = getStyler().isStacked();
        double wide = groupWidth() * fill / (stacked ? 1 : measured.size());
        double[] below = new double[categories.size()];
        int s = 0;
        for (Mark.MeasuredValue[] values : measured.values()) {
            for (int i = 0; i < values.length; i++) {
                if (Double.isNaN(values[i].value()) || values[i].text() == null) {
                    continue;
                }
                double x = plot.getBounds().getX() + groupWidth() * (i + (1 - fill) / 2) + (stacked ? 0 : wide * s);
                double from = getScreenYFromChart(Math.max(below[i], range.min()));
                double to = getScreenYFromChart(below[i] + values[i].value());
                var bar = new Rectangle2D.Double(x, Math.min(from, to), wide, Math.abs(to - from));
                HoverTexts.add(g, bar, values[i]::text);
                below[i] += stacked ? values[i].value() : 0;
            }
            s++;
        }
    }

    private void paintErrorBarsAndNotes(Graphics2D g) {
        double fill = getStyler().getAvailableSpaceFill();
        double bar = groupWidth() * fill / measured.size();
        double floor = plot.getBounds().getMaxY();
        int s = 0;
        for (String name : measured.keySet()) {
            Mark.MeasuredValue[] values = measured.get(name);
            for (int i = 0; i < values.length; i++) {
                double x = plot.getBounds().getX() + groupWidth() * (i + (1 - fill) / 2) + bar * (s + 0.5);
                String note = notes.get(name)[i];
                if (values[i].error() > 0) {
                    Mark.drawErrorBar(g, this, range, ChartStyle.INK, x, values[i]);
                } else if (Double.isNaN(values[i].value()) && note != null) {
                    Color color = ChartStyle.forText(ChartStyle.color(s));
                    ChartStyle.drawText(
                            g,
                            note,
                            ChartStyle.smallFont(),
                            color,
                            x + 4 * ChartStyle.UNITS,
                            floor - 4 * ChartStyle.UNITS,
                            -90);
                }
            }
            s++;
        }
    }
}
