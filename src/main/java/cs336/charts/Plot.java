package cs336.charts;

import cs336.charts.Mark.MeasuredValue;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.DoubleStream;
import java.util.stream.Stream;
import org.knowm.xchart.internal.chartpart.AxesChart;
import org.knowm.xchart.internal.chartpart.Chart;
import org.knowm.xchart.style.AxesChartStyler;
import tech.tablesaw.api.NumericColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;
import tech.tablesaw.columns.Column;

/**
 * A builder of figures from a tidy table. {@link Charts} creates it, {@link #x} and {@link #y} are required, and
 * {@link #figure} builds the figure.
 *
 * <p>The table must have at most one row per panel, series and x, except for a scatter chart. Categories are shown in
 * the order of their first row, numbers in ascending order. In a bar chart, the column {@code status} of a row without
 * a value replaces the bar; other charts omit the row. Methods with a column throw an {@link IllegalArgumentException}
 * if the table lacks the column, or if it must be numeric but is not.
 */
public final class Plot {
    /** The kind of chart. */
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
    private String origin = "";
    private Spacing spacing = Spacing.LINEAR;
    private boolean logY;
    private boolean stacked;
    private int width;
    private int height;
    private final List<Mark.ReferenceLine> referenceLines = new ArrayList<>();
    private final Map<String, String> names = new LinkedHashMap<>();

    Plot(Table table, ChartKind kind) {
        this.table = table;
        this.kind = kind;
    }

    /** Sets the column of the horizontal axis, and the axis title with its unit. */
    public Plot x(String column, String title) {
        x = requireColumn(column);
        xTitle = title;
        if (kind != ChartKind.BAR) {
            requireNumeric(column);
        }
        return this;
    }

    /** Sets the numeric column of the vertical axis, and the axis title with its unit. */
    public Plot y(String column, String title) {
        y = requireColumn(column);
        yTitle = title;
        requireNumeric(column);
        return this;
    }

    /**
     * Sets the column that contains half the length of the error bars, such as a standard deviation, in the unit of y.
     */
    public Plot error(String column) {
        error = requireColumn(column);
        requireNumeric(column);
        return this;
    }

    /** Draws one series per value of this column. */
    public Plot by(String column) {
        by = requireColumn(column);
        return this;
    }

    /** Draws one series per value of this column, with a title in front of the names in the legend. */
    public Plot by(String column, String title) {
        legendTitle = title;
        return by(column);
    }

    /** Draws one panel per value of this column, side by side with the same vertical axis. */
    public Plot panels(String column) {
        panels = requireColumn(column);
        return this;
    }

    /** Makes the horizontal axis logarithmic to base 10; XChart's series then contain the logarithms of x. */
    public Plot logX() {
        spacing = Spacing.LOG10;
        return this;
    }

    /** Makes the horizontal axis logarithmic to base 2; XChart's series then contain the logarithms of x. */
    public Plot log2X() {
        spacing = Spacing.LOG2;
        return this;
    }

    /** Makes the vertical axis logarithmic to base 10. */
    public Plot logY() {
        logY = true;
        return this;
    }

    /** Stacks the bars of the series of a bar chart. */
    public Plot stacked() {
        stacked = true;
        return this;
    }

    /** Adds a dashed horizontal reference line with a label. */
    public Plot level(double value, String label) {
        referenceLines.add(new Mark.ReferenceLine(value, label));
        return this;
    }

    /** Sets the name shown for a category, series or panel instead of its value in the table, such as a year. */
    public Plot rename(String value, String shown) {
        names.put(value, shown);
        return this;
    }

    /** Sets a title above the chart. A figure with a caption needs none. */
    public Plot title(String title) {
        this.title = title;
        return this;
    }

    /**
     * Sets the machines and commits of the measurements from which the table was computed, see
     * {@link Figure#withOrigin}. A table of measurements names them in its columns {@code device} and {@code commit}.
     */
    public Plot origin(String machinesAndCommits) {
        origin = machinesAndCommits;
        return this;
    }

    /**
     * Sets the size of the whole figure in pixels, each 100 to 4000. The default is 640 × 380 for one panel; for n
     * panels it is 240 n + 80, at most 960, × 310.
     */
    public Plot size(int width, int height) {
        this.width = width;
        this.height = height;
        return this;
    }

    /**
     * Builds the figure.
     *
     * @param name name of the figure: lower-case letters, digits and hyphens
     * @param description alternative text for readers who cannot see the figure
     * @throws IllegalArgumentException if x or y is not set, stacked bars have an error, no row has a value, two rows
     *     have the same panel, series and x, there are more series than colours, a value is infinite, an x is missing,
     *     or a value on a logarithmic axis is not positive
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
            throw new IllegalArgumentException("x and y must be set before figure(…)");
        }
        if (stacked && error != null) {
            throw new IllegalArgumentException("stacked bars have no error bars; leave out error(…) or stacked()");
        }
        List<String> panelNames = panels == null ? List.of("") : distinct(panels);
        List<String> seriesNames = by == null ? List.of("") : distinct(by);
        if (seriesNames.size() > ChartStyle.PALETTE.size()) {
            throw new IllegalArgumentException("column " + by + " has " + seriesNames.size()
                    + " values; at most " + ChartStyle.PALETTE.size()
                    + " series are allowed, so filter the table or use panels(…)");
        }
        Map<String, Map<String, Map<String, PlottedPoint>>> points = points();
        int count = panelNames.size();
        int w = width > 0 ? width : count == 1 ? 640 : Math.min(240 * count + 80, 960);
        int h = height > 0 ? height : count == 1 ? 380 : 310;
        AxisRange range = valueRange(points);
        requireGlyphs(panelNames, seriesNames);
        var charts = new ArrayList<Chart<?, ?>>();
        for (int i = 0; i < count; i++) {
            charts.add(
                    kind == ChartKind.BAR
                            ? bars(panelNames, i, seriesNames, points, range, w)
                            : lines(panelNames, i, seriesNames, points, range));
        }
        return new Figure(name, description, w, h, charts).withOrigin(origin);
    }

    private void requireGlyphs(List<String> panelNames, List<String> seriesNames) {
        var words = new ArrayList<>(List.of(xTitle, yTitle, title, legendTitle));
        referenceLines.forEach(line -> words.add(line.label()));
        panelNames.forEach(panel -> words.add(shown(panels, panel)));
        seriesNames.forEach(series -> words.add(shown(by, series)));
        if (kind == ChartKind.BAR) {
            distinct(x).forEach(category -> words.add(shown(x, category)));
        }
        for (String word : words) {
            int unknown = Typeface.REGULAR.unknownCharacter(word);
            if (unknown >= 0) {
                throw new IllegalArgumentException(String.format(
                        "\"%s\": the font of charts has no character %c (U+%04X)", word, unknown, unknown));
            }
        }
    }

    /** One row of the table; the note replaces a bar without a value. */
    private record PlottedPoint(double x, MeasuredValue y, String note) {}

    /** Returns the points by panel, series and x, all as text; in a scatter chart the row number follows x. */
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
                    new MeasuredValue(
                            value, error == null ? Double.NaN : number(row, error), hoverText(row, panel, series, at)),
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

    /** Returns the case of a row, its value, and where it was measured if that is known. */
    private String hoverText(Row row, String panel, String series, String at) {
        var lines = new ArrayList<String>();
        lines.add(joined(", ", shown(panels, panel), shown(by, series)));
        lines.add(joined(": ", xTitle, kind == ChartKind.BAR ? shown(x, at) : ChartStyle.number(number(row, x))));
        String deviation = error == null ? "" : "± " + ChartStyle.rounded(number(row, error));
        lines.add(joined(": ", yTitle, joined(" ", ChartStyle.rounded(number(row, y)), deviation)));
        lines.add(joined(
                ", ", measured(row, "device", ""), measured(row, "commit", "commit "), measured(row, "date", "")));
        return joined("\n", lines.toArray(String[]::new));
    }

    private static String joined(String separator, String... parts) {
        return Stream.of(parts).filter(part -> !part.isBlank()).collect(Collectors.joining(separator));
    }

    private String measured(Row row, String column, String before) {
        String value = table.containsColumn(column) ? text(row, column) : "";
        return value.isEmpty() ? "" : before + value;
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
        double[] levels =
                referenceLines.stream().mapToDouble(Mark.ReferenceLine::value).toArray();
        double[] sums = stacked ? sums(points) : new double[0];
        double[] all = Stream.of(values, levels, sums)
                .flatMapToDouble(DoubleStream::of)
                .toArray();
        requireFinite(
                "column " + y,
                Stream.of(values, sums).flatMapToDouble(DoubleStream::of).toArray());
        requireFinite("a reference line", levels);
        if (logY) {
            requirePositive(y, all);
            if (kind == ChartKind.BAR) {
                // Extends the axis below the smallest bar, so that the bar is visible.
                all = Arrays.copyOf(all, all.length + 1);
                all[all.length - 1] = Arrays.stream(values).min().orElseThrow() / 1.6;
            }
        }
        AxisRange range = AxisRange.of(all, logY, kind == ChartKind.BAR);
        return kind == ChartKind.SCATTER && !logY ? range.widened() : range;
    }

    /** Returns the heights of the stacked bars. */
    private static double[] sums(Map<String, Map<String, Map<String, PlottedPoint>>> points) {
        return points.values().stream()
                .flatMap(series -> {
                    var sums = new LinkedHashMap<String, Double>();
                    series.values()
                            .forEach(at -> at.forEach((category, point) -> {
                                if (!Double.isNaN(point.y().value())) {
                                    sums.merge(category, point.y().value(), Double::sum);
                                }
                            }));
                    return sums.values().stream();
                })
                .mapToDouble(Double::doubleValue)
                .toArray();
    }

    private static void requireFinite(String what, double[] values) {
        for (double value : values) {
            if (!Double.isFinite(value)) {
                throw new IllegalArgumentException(
                        what + " has the value " + value + "; values of a chart must be finite, so filter the table");
            }
        }
    }

    private static void requirePositive(String column, double[] values) {
        for (double value : values) {
            if (!(value > 0)) {
                throw new IllegalArgumentException("column " + column + " has the value " + value
                        + "; values on a logarithmic axis must be positive");
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
        List<String> shown = seriesNames.stream().map(name -> shown(by, name)).toList();
        List<String> categories = distinct(x);
        Legend legend =
                by == null ? Legend.NONE : new Legend(legendTitle, shown, (figureWidth - 80.0) * ChartStyle.UNITS);
        Frame frame = frame(panelNames, index, legend);
        var chart = new BarPanel(
                frame, categories.stream().map(name -> shown(x, name)).toList(), range, referenceLines);
        applyStyle(chart, range, index == 0 ? yTitle : "");
        chart.getStyler().setAvailableSpaceFill(stacked || seriesNames.size() == 1 ? 0.6 : 0.8);
        chart.getStyler().setStacked(stacked);
        for (int s = 0; s < seriesNames.size(); s++) {
            Map<String, PlottedPoint> at = series.getOrDefault(seriesNames.get(s), Map.of());
            var values = new MeasuredValue[categories.size()];
            var notes = new String[categories.size()];
            for (int c = 0; c < values.length; c++) {
                PlottedPoint point = at.get(categories.get(c));
                values[c] = point == null ? new MeasuredValue(stacked ? 0 : Double.NaN, Double.NaN, null) : point.y();
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
        // If the last panel contains every series, only that panel shows the series names.
        int last = panelNames.size() - 1;
        boolean lastShowsAll =
                points.getOrDefault(panelNames.get(last), Map.of()).size() == seriesNames.size();
        boolean labelled = by != null && (!lastShowsAll || index == last);
        var chart = new LinePanel(frame(panelNames, index, Legend.NONE), scale, range, referenceLines, labelled);
        applyStyle(chart, range, index == 0 ? yTitle : "");
        scale.applyTo(chart.getStyler());
        for (int s = 0; s < seriesNames.size(); s++) {
            List<PlottedPoint> ordered = series.getOrDefault(seriesNames.get(s), Map.of()).values().stream()
                    .sorted(Comparator.comparingDouble(PlottedPoint::x))
                    .toList();
            if (!ordered.isEmpty()) {
                chart.add(
                        by == null ? yTitle : shown(by, seriesNames.get(s)),
                        s,
                        ordered.stream().mapToDouble(p -> scale.toAxis(p.x())).toArray(),
                        ordered.stream().map(PlottedPoint::y).toArray(MeasuredValue[]::new),
                        kind == ChartKind.LINE);
            }
        }
        return chart;
    }

    private Frame frame(List<String> panelNames, int index, Legend legend) {
        String panelTitle = panels == null ? title : shown(panels, panelNames.get(index));
        return new Frame(panelTitle, !panelTitle.isEmpty(), legend, index == 0, xTitle);
    }

    /** Applies the style to a chart whose horizontal ticks are painted by its {@link Frame}. */
    static void applyStyle(AxesChart<? extends AxesChartStyler, ?> chart, AxisRange range, String yTitle) {
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
        requireFinite("column " + x, values);
        if (spacing != Spacing.LINEAR) {
            requirePositive(x, values);
        }
        return HorizontalScale.of(values, spacing);
    }

    /** Returns the name of a value of a column; without a name, a number is written like those of axes. */
    private String shown(String column, String value) {
        if (names.containsKey(value)) {
            return names.get(value);
        }
        boolean number = column != null && !value.isEmpty() && table.column(column) instanceof NumericColumn<?>;
        return number ? ChartStyle.number(Double.parseDouble(value)) : value;
    }

    /** Returns the values of a column: numbers in ascending order, others in the order of their first row. */
    private List<String> distinct(String column) {
        Map<String, Double> values = new LinkedHashMap<>();
        boolean numeric = table.column(column) instanceof NumericColumn<?>;
        for (Row row : table) {
            values.put(text(row, column), numeric ? number(row, column) : 0);
        }
        return values.entrySet().stream()
                .sorted(Map.Entry.comparingByValue())
                .map(Map.Entry::getKey)
                .toList();
    }

    private String requireColumn(String column) {
        if (!table.containsColumn(column)) {
            throw new IllegalArgumentException("column \"" + column + "\" is not in the table, which has "
                    + String.join(", ", table.columnNames()));
        }
        return column;
    }

    private void requireNumeric(String column) {
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
