package cs336.charts;

import java.awt.Color;
import java.awt.Graphics2D;
import java.awt.geom.Line2D;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYSeries;

/** A line or scatter chart with error bars and with series names at the right ends of the lines. */
final class LinePanel extends XYChart {
    private static final double LABEL_GAP = 8 * ChartStyle.UNITS;

    private final Frame frame;
    private final HorizontalScale scale;
    private final AxisRange range;
    private final List<Mark.ReferenceLine> referenceLines;
    private final boolean labelled;
    private final Map<String, Mark.MeasuredValue[]> measured = new LinkedHashMap<>();

    LinePanel(
            Frame frame,
            HorizontalScale scale,
            AxisRange range,
            List<Mark.ReferenceLine> referenceLines,
            boolean labelled) {
        super(ChartStyle.WIDTH, ChartStyle.HEIGHT);
        this.frame = frame;
        this.scale = scale;
        this.range = range;
        this.referenceLines = referenceLines;
        this.labelled = labelled;
    }

    /**
     * Adds a series.
     *
     * @param color index in the palette
     * @param x coordinates on the axis, see {@link HorizontalScale#toAxis}
     * @param joined true for a line, false for separate points
     */
    void add(String name, int color, double[] x, Mark.MeasuredValue[] y, boolean joined) {
        double[] values = new double[y.length];
        for (int i = 0; i < y.length; i++) {
            values[i] = y[i].value();
        }
        XYSeries series = addSeries(name, x, values);
        series.setLineColor(ChartStyle.color(color));
        series.setMarkerColor(ChartStyle.color(color));
        series.setMarker(ChartStyle.marker(color));
        if (!joined) {
            series.setXYSeriesRenderStyle(XYSeries.XYSeriesRenderStyle.Scatter);
        }
        measured.put(name, y);
    }

    /** Returns the width of the space for names to the right of the plot, in drawing units. */
    double labelWidth() {
        double width = 0;
        if (labelled) {
            for (String name : measured.keySet()) {
                width = Math.max(width, LABEL_GAP + ChartStyle.width(name, ChartStyle.textFont()));
            }
        }
        return width;
    }

    @Override
    public void paint(Graphics2D g, int width, int height) {
        frame.paintPanel(g, width, height, plotHeight -> {
            super.paint(g, width - (int) Math.ceil(labelWidth()), plotHeight);
            frame.paint(g, plot.getBounds(), scale.ticks(this, plot.getBounds().getWidth(), 50));
            paintErrorBarsAndTexts(g);
            HoverTexts.addAxes(g, this, plot.getBounds(), scale.spacing(), true);
            Mark.drawReferenceLines(g, referenceLines, this, plot.getBounds());
            if (labelled) {
                paintLabels(g);
            }
        });
    }

    private void paintErrorBarsAndTexts(Graphics2D g) {
        measured.forEach((name, values) -> {
            XYSeries series = seriesMap.get(name);
            for (int i = 0; i < values.length; i++) {
                double x = getScreenXFromChart(series.getXData()[i]);
                HoverTexts.addPoint(g, x, getScreenYFromChart(values[i].value()), values[i]::text);
                if (values[i].error() > 0) {
                    Mark.drawErrorBar(g, this, range, series.getLineColor(), x, values[i]);
                }
            }
        });
    }

    /** Draws each series name at the height of the right end of its line, shifted where names would overlap. */
    private void paintLabels(Graphics2D g) {
        record SeriesLabel(String name, Color color, double x, double y) {}
        var labels = new ArrayList<SeriesLabel>();
        for (XYSeries series : seriesMap.values()) {
            double[] x = series.getXData();
            double[] y = series.getYData();
            int last = x.length - 1;
            labels.add(new SeriesLabel(
                    series.getName(),
                    series.getLineColor(),
                    getScreenXFromChart(x[last]),
                    getScreenYFromChart(y[last])));
        }
        labels.sort(Comparator.comparingDouble(SeriesLabel::y));
        double[] heights = spread(labels.stream().mapToDouble(SeriesLabel::y).toArray(), 15 * ChartStyle.UNITS);
        double edge = plot.getBounds().getMaxX();
        double x = edge + LABEL_GAP;
        for (int i = 0; i < heights.length; i++) {
            SeriesLabel label = labels.get(i);
            boolean needsLeader =
                    Math.abs(heights[i] - label.y()) > ChartStyle.UNITS || label.x() < edge - 20 * ChartStyle.UNITS;
            if (needsLeader) {
                g.setColor(label.color());
                g.setStroke(ChartStyle.hairline(0.6));
                g.draw(new Line2D.Double(
                        label.x() + 5 * ChartStyle.UNITS, label.y(), x - 2 * ChartStyle.UNITS, heights[i]));
            }
            ChartStyle.drawText(
                    g,
                    label.name(),
                    ChartStyle.textFont(),
                    ChartStyle.forText(label.color()),
                    x,
                    heights[i] + 4.3 * ChartStyle.UNITS,
                    0);
        }
    }

    /**
     * Returns positions with a distance of at least {@code gap} that minimize the sum of squared shifts.
     *
     * @param wanted positions in ascending order
     */
    static double[] spread(double[] wanted, double gap) {
        int n = wanted.length;
        double[] placed = new double[n];
        // Blocks of adjacent labels; each block is centred on the mean of its labels' wanted positions.
        int[] start = new int[n];
        double[] top = new double[n];
        int blocks = 0;
        for (int i = 0; i < n; i++) {
            start[blocks] = i;
            top[blocks] = wanted[i];
            blocks++;
            while (blocks > 1 && top[blocks - 1] < top[blocks - 2] + gap * (start[blocks - 1] - start[blocks - 2])) {
                blocks--;
                double sum = 0;
                for (int j = start[blocks - 1]; j <= i; j++) {
                    sum += wanted[j] - gap * (j - start[blocks - 1]);
                }
                top[blocks - 1] = sum / (i - start[blocks - 1] + 1);
            }
        }
        for (int b = 0; b < blocks; b++) {
            int end = b + 1 < blocks ? start[b + 1] : n;
            for (int i = start[b]; i < end; i++) {
                placed[i] = top[b] + gap * (i - start[b]);
            }
        }
        return placed;
    }
}
