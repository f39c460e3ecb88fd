package cs336.charts;

import java.util.Map;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * The kinds of charts that can be drawn from a tidy table (one row per measurement).
 *
 * <pre>{@code
 * Charts.line(table).x("context", "context length (tokens)").y("mean", "time (ms)").error("std")
 *         .by("size").log2X().logY().figure("forward-by-context", "Time of a forward pass …")
 * }</pre>
 */
public final class Charts {
    private Charts() {}

    /** Returns a builder of a line chart over a numeric x, with series names at the right ends of the lines. */
    public static Plot line(Table table) {
        return new Plot(table, Plot.ChartKind.LINE);
    }

    /** Returns a builder of a bar chart with one group of bars per value of x. */
    public static Plot bar(Table table) {
        return new Plot(table, Plot.ChartKind.BAR);
    }

    /** Returns a builder of a scatter chart over a numeric x. */
    public static Plot scatter(Table table) {
        return new Plot(table, Plot.ChartKind.SCATTER);
    }

    /**
     * Returns a tidy table with the columns {@code x}, {@code y} and {@code series}, for numbers computed in a program.
     *
     * @param series y values by series name, each as long as {@code x}
     * @throws IllegalArgumentException if the length of a series differs from that of x
     */
    public static Table table(double[] x, Map<String, double[]> series) {
        var xs = DoubleColumn.create("x");
        var ys = DoubleColumn.create("y");
        var names = StringColumn.create("series");
        series.forEach((name, y) -> {
            if (y.length != x.length) {
                throw new IllegalArgumentException(
                        "series " + name + " has " + y.length + " values; it must have " + x.length + " like x");
            }
            for (int i = 0; i < x.length; i++) {
                xs.append(x[i]);
                ys.append(y[i]);
                names.append(name);
            }
        });
        return Table.create("series", xs, ys, names);
    }
}
