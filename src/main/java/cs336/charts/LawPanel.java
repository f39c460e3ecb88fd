package cs336.charts;

import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Graphics2D;
import java.awt.geom.Path2D;
import java.util.ArrayList;
import java.util.List;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYSeries;
import org.knowm.xchart.XYSeries.XYSeriesRenderStyle;
import org.knowm.xchart.style.lines.SeriesLines;
import org.knowm.xchart.style.markers.Marker;
import org.knowm.xchart.style.markers.SeriesMarkers;

/** A chart of points, fitted curves and confidence bands over a numeric x. Coordinates are in data units. */
public final class LawPanel extends XYChart {
    private static final float[] DASHES = {5f * ChartStyle.UNITS, 4f * ChartStyle.UNITS};
    private static final int BAND_ALPHA = 0x30;

    private final Frame frame;
    private final HorizontalScale scale;
    private final List<Band> bands = new ArrayList<>();
    private final List<XYSeries> points = new ArrayList<>();
    private final List<CurveLabel> labels = new ArrayList<>();
    private final String yTitle;

    private record Band(Color color, double[] x, double[] low, double[] high) {}

    private record CurveLabel(String text, Color color, double x, double y) {}

    /** Creates an empty chart. */
    public LawPanel(Frame frame, HorizontalScale scale, AxisRange range, String yTitle) {
        super(ChartStyle.WIDTH, ChartStyle.HEIGHT);
        this.frame = frame;
        this.scale = scale;
        this.yTitle = yTitle;
        Plot.applyStyle(this, range, yTitle);
        scale.applyTo(getStyler());
    }

    /** Adds a line without markers. */
    public LawPanel curve(String name, Color color, boolean dashed, double[] x, double[] y) {
        XYSeries series = add(name, x, y);
        series.setLineColor(color);
        series.setMarker(SeriesMarkers.NONE);
        if (dashed) {
            series.setLineStyle(new BasicStroke(
                    1.25f * ChartStyle.UNITS, BasicStroke.CAP_BUTT, BasicStroke.JOIN_ROUND, 1, DASHES, 0));
        }
        return this;
    }

    /** Adds markers without a line. */
    public LawPanel points(String name, Color color, Marker marker, double[] x, double[] y) {
        XYSeries series = add(name, x, y);
        series.setXYSeriesRenderStyle(XYSeriesRenderStyle.Scatter);
        series.setLineStyle(SeriesLines.NONE);
        series.setMarkerColor(color);
        series.setMarker(marker);
        points.add(series);
        return this;
    }

    private XYSeries add(String name, double[] x, double[] y) {
        double[] positions = new double[x.length];
        for (int i = 0; i < x.length; i++) {
            positions[i] = scale.toAxis(x[i]);
        }
        return addSeries(name, positions, y);
    }

    /** Adds a translucent area between two curves. */
    public LawPanel band(Color color, double[] x, double[] low, double[] high) {
        bands.add(new Band(color, x, low, high));
        return this;
    }

    /** Adds a label to the right of a point. */
    public LawPanel label(String text, Color color, double x, double y) {
        labels.add(new CurveLabel(text, color, x, y));
        return this;
    }

    @Override
    public void paint(Graphics2D g, int width, int height) {
        frame.paintPanel(g, width, height, plotHeight -> {
            super.paint(g, width, plotHeight);
            frame.paint(g, plot.getBounds(), scale.ticks(this, plot.getBounds().getWidth(), 50));
            HoverTexts.addAxes(g, this, plot.getBounds(), scale.spacing(), true);
            bands.forEach(band -> paintBand(g, band));
            addHoverTexts(g);
            labels.forEach(label -> paintLabel(g, label));
        });
    }

    private void addHoverTexts(Graphics2D g) {
        for (XYSeries series : points) {
            for (int i = 0; i < series.getXData().length; i++) {
                double position = series.getXData()[i];
                double value = series.getYData()[i];
                HoverTexts.addPoint(
                        g,
                        getScreenXFromChart(position),
                        getScreenYFromChart(value),
                        () -> hoverText(series.getName(), scale.spacing().fromAxis(position), value));
            }
        }
    }

    private String hoverText(String name, double x, double y) {
        return name + "\n" + frame.xTitle() + ": " + ChartStyle.rounded(x) + "\n"
                + (yTitle.isEmpty() ? "" : yTitle + ": ") + ChartStyle.rounded(y);
    }

    private void paintLabel(Graphics2D g, CurveLabel label) {
        ChartStyle.drawText(
                g,
                label.text(),
                ChartStyle.smallFont(),
                ChartStyle.forText(label.color()),
                x(label.x()) + 6 * ChartStyle.UNITS,
                getScreenYFromChart(label.y()) + 4 * ChartStyle.UNITS,
                0);
    }

    private void paintBand(Graphics2D g, Band band) {
        var area = new Path2D.Double();
        for (int i = 0; i < band.x().length; i++) {
            double x = x(band.x()[i]);
            double y = getScreenYFromChart(band.high()[i]);
            if (i == 0) {
                area.moveTo(x, y);
            } else {
                area.lineTo(x, y);
            }
        }
        for (int i = band.x().length - 1; i >= 0; i--) {
            area.lineTo(x(band.x()[i]), getScreenYFromChart(band.low()[i]));
        }
        area.closePath();
        Color color = band.color();
        g.setColor(new Color(color.getRed(), color.getGreen(), color.getBlue(), BAND_ALPHA));
        g.fill(area);
    }

    private double x(double value) {
        return getScreenXFromChart(scale.toAxis(value));
    }
}
