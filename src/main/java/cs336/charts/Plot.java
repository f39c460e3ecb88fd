package cs336.charts;

import cs336.charts.Mark.MeasuredValue;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.DoubleStream;
import org.knowm.xchart.internal.chartpart.AxesChart;
import org.knowm.xchart.internal.chartpart.Chart;
import org.knowm.xchart.style.AxesChartStyler;
import tech.tablesaw.api.NumericColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;

/**
 * A chart being described: which column stands where, and on what axes. Begun by {@link Charts}, ended by
 * {@link #figure}. Required: {@link #x} and {@link #y}.
 *
 * <p>Each (panel, series, x) may have one row; filter the table first where there are more. Categories stand in the
 * order in which the table names them, numbers in ascending order.
 */
public final class Plot {
    enum ChartKind {
        LINE,
        BAR,
        SCATTER
    }

    private final Table table;
    private final ChartKind kind;
    private String x;
    private String xTitle;
    private String y;
    private String yTitle;
    private String error;
    private String by;
    private String legendTitle = "";
    private String panels;
    private String title = "";
    private Spacing spacing = Spacing.LINEAR;
    private boolean logY;
    private int width;
    private int height;
    private final List<Mark.ReferenceLine> referenceLines = new ArrayList<>();
    private final Map<String, String> names = new LinkedHashMap<>();

    Plot(Table table, ChartKind kind) {
        this.table = table;
        this.kind = kind;
    }

    /** The column along the horizontal axis, and the axis's title with its unit. */
    public Plot x(String column, String title) {
        x = known(column);
        xTitle = title;
        if (kind != ChartKind.BAR) {
            numeric(column);
        }
        return this;
    }

    /** The numeric column along the vertical axis, and the axis's title with its unit. */
    public Plot y(String column, String title) {
        y = known(column);
        yTitle = title;
        numeric(column);
        return this;
    }

    /** The column with half the length of the error bars, in units of y. */
    public Plot error(String column) {
        error = known(column);
        numeric(column);
        return this;
    }

    /** One series for each value of this column. */
    public Plot by(String column) {
        by = known(column);
        return this;
    }

    /** One series for each value of this column, with a title before the names in the legend. */
    public Plot by(String column, String title) {
        legendTitle = title;
        return by(column);
    }

    /** One chart for each value of this column, side by side on a common vertical axis. */
    public Plot panels(String column) {
        panels = known(column);
        return this;
    }

    /** Horizontal axis in powers of ten; the chart's own x values are then base-10 logarithms. */
    public Plot logX() {
        spacing = Spacing.LOG10;
        return this;
    }

    /** Horizontal axis in powers of two, with a tick at each; the chart's own x values are then base-2 logarithms. */
    public Plot log2X() {
        spacing = Spacing.LOG2;
        return this;
    }

    /** Vertical axis in powers of ten. */
    public Plot logY() {
        logY = true;
        return this;
    }

    /** A dashed horizontal line with a word on it. */
    public Plot level(double value, String label) {
        referenceLines.add(new Mark.ReferenceLine(value, label));
        return this;
    }

    /** How a category, a series or a panel is called in the picture, where not by its value in the table. */
    public Plot rename(String value, String shown) {
        names.put(value, shown);
        return this;
    }

    /** A title above the chart. A figure with a caption needs none. */
    public Plot title(String title) {
        this.title = title;
        return this;
    }

    /** Size of the whole figure in pixels. */
    public Plot size(int width, int height) {
        this.width = width;
        this.height = height;
        return this;
    }

    /**
     * Draws it.
     *
     * @param name the figure's name: lower-case letters, digits and hyphens
     * @param description what a reader who cannot see the picture is told
     * @throws IllegalArgumentException where x or y is not set, the table has no row with a value, two rows fall on one
     *     point, there are more series than colours, or an axis is logarithmic and a value is not positive
     */
    public Figure figure(String name, String description) {
        try {
            return draw(name, description);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("figure " + name + ": " + e.getMessage(), e);
        }
    }

    private Figure draw(String name, String description) {
        if (x == null || y == null) {
            throw new IllegalArgumentException("set x(…) and y(…) first");
        }
        List<String> panelNames = panels == null ? List.of("") : distinct(panels);
        List<String> seriesNames = by == null ? List.of("") : distinct(by);
        if (seriesNames.size() > ChartStyle.PALETTE.size()) {
            throw new IllegalArgumentException("column " + by + " has " + seriesNames.size()
                    + " values; more than " + ChartStyle.PALETTE.size()
                    + " series cannot be told apart, so filter the table or use panels(…)");
        }
        Map<String, Map<String, Map<String, PlottedPoint>>> points = points();
        int count = panelNames.size();
        int w = width > 0 ? width : count == 1 ? 640 : Math.min(240 * count + 80, 960);
        int h = height > 0 ? height : count == 1 ? 380 : 310;
        AxisRange range = valueRange(points);
        requireLetters(panelNames, seriesNames);
        var charts = new ArrayList<Chart<?, ?>>();
        for (int i = 0; i < count; i++) {
            charts.add(
                    kind == ChartKind.BAR
                            ? bars(panelNames, i, seriesNames, points, range, w)
                            : lines(panelNames, i, seriesNames, points, range));
        }
        return new Figure(name, description, w, h, charts);
    }

    private void requireLetters(List<String> panelNames, List<String> seriesNames) {
        var words = new ArrayList<>(List.of(xTitle, yTitle, title, legendTitle));
        referenceLines.forEach(line -> words.add(line.label()));
        panelNames.forEach(panel -> words.add(shown(panel)));
        seriesNames.forEach(series -> words.add(shown(series)));
        if (kind == ChartKind.BAR) {
            distinct(x).forEach(category -> words.add(shown(category)));
        }
        for (String word : words) {
            int unknown = Typeface.REGULAR.unknownCharacter(word);
            if (unknown >= 0) {
                throw new IllegalArgumentException(
                        String.format("\"%s\": the charts' font has no letter %c (U+%04X)", word, unknown, unknown));
            }
        }
    }

    private record PlottedPoint(double x, MeasuredValue y, String note) {}

    /** Points by panel, series and x as text; a scatter may have several at one x. */
    private Map<String, Map<String, Map<String, PlottedPoint>>> points() {
        var points = new LinkedHashMap<String, Map<String, Map<String, PlottedPoint>>>();
        boolean hasStatus = table.containsColumn("status");
        for (Row row : table) {
            String panel = panels == null ? "" : text(row, panels);
            String series = by == null ? "" : text(row, by);
            String at = text(row, x);
            double value = number(row, y);
            String status = hasStatus ? text(row, "status") : "ok";
            if (Double.isNaN(value) && kind != ChartKind.BAR) {
                continue;
            }
            var point = new PlottedPoint(
                    kind == ChartKind.BAR ? Double.NaN : number(row, x),
                    new MeasuredValue(value, error == null ? Double.NaN : number(row, error)),
                    status.equals("ok") ? null : status.toUpperCase(Locale.ROOT));
            PlottedPoint before = points.computeIfAbsent(panel, p -> new LinkedHashMap<>())
                    .computeIfAbsent(series, s -> new LinkedHashMap<>())
                    .put(kind == ChartKind.SCATTER ? at + " " + row.getRowNumber() : at, point);
            if (before != null) {
                throw new IllegalArgumentException("two rows have "
                        + (panels == null ? "" : panels + "=" + panel + ", ")
                        + (by == null ? "" : by + "=" + series + ", ") + x + "=" + at
                        + "; filter the table so that one remains");
            }
        }
        return points;
    }

    private AxisRange valueRange(Map<String, Map<String, Map<String, PlottedPoint>>> points) {
        double[] values = points.values().stream()
                .flatMap(series -> series.values().stream())
                .flatMap(at -> at.values().stream())
                .map(PlottedPoint::y)
                .filter(point -> !Double.isNaN(point.value()))
                .flatMapToDouble(point -> DoubleStream.of(
                        point.value(), point.high(), logY && point.low() <= 0 ? point.value() : point.low()))
                .toArray();
        if (values.length == 0) {
            throw new IllegalArgumentException("column " + y + " has no value");
        }
        double[] all = Arrays.copyOf(values, values.length + referenceLines.size());
        for (int i = 0; i < referenceLines.size(); i++) {
            all[values.length + i] = referenceLines.get(i).value();
        }
        if (logY) {
            requirePositive(y, all);
            if (kind == ChartKind.BAR) {
                // The smallest bar needs some height to be seen.
                all = Arrays.copyOf(all, all.length + 1);
                all[all.length - 1] = Arrays.stream(values).min().orElseThrow() / 1.6;
            }
        }
        return AxisRange.of(all, logY, kind == ChartKind.BAR);
    }

    private static void requirePositive(String column, double[] values) {
        for (double value : values) {
            if (!(value > 0)) {
                throw new IllegalArgumentException(
                        "column " + column + " has the value " + value + ", which has no place on a logarithmic axis");
            }
        }
    }

    private BarPanel bars(
            List<String> panelNames,
            int index,
            List<String> seriesNames,
            Map<String, Map<String, Map<String, PlottedPoint>>> points,
            AxisRange range,
            int figureWidth) {
        Map<String, Map<String, PlottedPoint>> series = points.getOrDefault(panelNames.get(index), Map.of());
        List<String> shown = seriesNames.stream().map(this::shown).toList();
        List<String> categories = distinct(x);
        Legend legend =
                by == null ? Legend.NONE : new Legend(legendTitle, shown, (figureWidth - 80.0) * ChartStyle.UNITS);
        Frame frame = frame(panelNames, index, legend);
        var chart = new BarPanel(frame, categories.stream().map(this::shown).toList(), range, referenceLines);
        dress(chart, range, index == 0 ? yTitle : "");
        chart.getStyler().setAvailableSpaceFill(seriesNames.size() == 1 ? 0.6 : 0.8);
        for (int s = 0; s < seriesNames.size(); s++) {
            Map<String, PlottedPoint> at = series.getOrDefault(seriesNames.get(s), Map.of());
            var values = new MeasuredValue[categories.size()];
            var notes = new String[categories.size()];
            for (int c = 0; c < values.length; c++) {
                PlottedPoint point = at.get(categories.get(c));
                values[c] = point == null ? new MeasuredValue(Double.NaN, Double.NaN) : point.y();
                notes[c] = point == null ? null : point.note();
            }
            chart.add(by == null ? yTitle : shown.get(s), s, values, notes);
        }
        return chart;
    }

    private LinePanel lines(
            List<String> panelNames,
            int index,
            List<String> seriesNames,
            Map<String, Map<String, Map<String, PlottedPoint>>> points,
            AxisRange range) {
        Map<String, Map<String, PlottedPoint>> series = points.getOrDefault(panelNames.get(index), Map.of());
        HorizontalScale scale = horizontalScale(points.values());
        // One set of names is enough where the last panel shows every series.
        int last = panelNames.size() - 1;
        boolean lastShowsAll =
                points.getOrDefault(panelNames.get(last), Map.of()).size() == seriesNames.size();
        boolean labelled = by != null && (!lastShowsAll || index == last);
        var chart = new LinePanel(frame(panelNames, index, Legend.NONE), scale, range, referenceLines, labelled);
        dress(chart, range, index == 0 ? yTitle : "");
        chart.getStyler().setXAxisMin(scale.ends()[0]);
        chart.getStyler().setXAxisMax(scale.ends()[1]);
        for (int s = 0; s < seriesNames.size(); s++) {
            List<PlottedPoint> ordered = series.getOrDefault(seriesNames.get(s), Map.of()).values().stream()
                    .sorted(Comparator.comparingDouble(PlottedPoint::x))
                    .toList();
            if (!ordered.isEmpty()) {
                chart.add(
                        by == null ? yTitle : shown(seriesNames.get(s)),
                        s,
                        ordered.stream().mapToDouble(p -> scale.toAxis(p.x())).toArray(),
                        ordered.stream().map(PlottedPoint::y).toArray(MeasuredValue[]::new),
                        kind == ChartKind.LINE);
            }
        }
        return chart;
    }

    private Frame frame(List<String> panelNames, int index, Legend legend) {
        String above = panels == null ? title : shown(panelNames.get(index));
        return new Frame(above, !above.isEmpty(), legend, index == 0, xTitle);
    }

    /** How a chart looks whose horizontal ticks its {@link Frame} paints. */
    static void dress(AxesChart<? extends AxesChartStyler, ?> chart, AxisRange range, String yTitle) {
        AxesChartStyler styler = chart.getStyler();
        ChartStyle.apply(styler);
        styler.setXAxisTicksVisible(false);
        styler.setYAxisLogarithmic(range.log());
        styler.setYAxisLogarithmicDecadeOnly(false);
        styler.setYAxisMin(range.min());
        styler.setYAxisMax(range.max());
        styler.setYAxisTickLabelsFormattingFunction(range.labels());
        styler.setYAxisTickMarkSpacingHint(44 * ChartStyle.UNITS);
        styler.setPlotContentSize(1);
        chart.setYAxisTitle(yTitle);
    }

    private HorizontalScale horizontalScale(Collection<Map<String, Map<String, PlottedPoint>>> panels) {
        double[] values = panels.stream()
                .flatMap(series -> series.values().stream())
                .flatMap(at -> at.values().stream())
                .mapToDouble(PlottedPoint::x)
                .toArray();
        if (spacing != Spacing.LINEAR) {
            requirePositive(x, values);
        }
        return HorizontalScale.of(values, spacing);
    }

    private String shown(String value) {
        return names.getOrDefault(value, value);
    }

    private List<String> distinct(String column) {
        Set<String> values = new LinkedHashSet<>();
        for (Row row : table) {
            values.add(text(row, column));
        }
        return List.copyOf(values);
    }

    private String known(String column) {
        if (!table.containsColumn(column)) {
            throw new IllegalArgumentException("column \"" + column + "\" is not in the table, which has "
                    + String.join(", ", table.columnNames()));
        }
        return column;
    }

    private void numeric(String column) {
        if (!(table.column(column) instanceof NumericColumn<?>)) {
            throw new IllegalArgumentException("column \"" + column + "\" is of type "
                    + table.column(column).type().name() + "; it must be numeric");
        }
    }

    private static String text(Row row, String column) {
        return row.getObject(column) == null ? "" : String.valueOf(row.getObject(column));
    }

    private double number(Row row, String column) {
        Column<?> values = table.column(column);
        return ((NumericColumn<?>) values).getDouble(row.getRowNumber());
    }
}
