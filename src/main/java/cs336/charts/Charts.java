package cs336.charts;

import java.util.Map;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * Where every chart begins: a tidy table (one row a measurement) and a kind of chart.
 *
 * <pre>{@code
 * Charts.line(table).x("context", "context length (tokens)").y("mean", "time (ms)").error("std")
 *         .by("size").log2X().logY().figure("forward-by-context", "Time of a forward pass …")
 * }</pre>
 */
public final class Charts {
    private Charts() {}

    /** Lines over a numeric x, each named at its right end. */
    public static Plot line(Table table) {
        return new Plot(table, Plot.ChartKind.LINE);
    }

    /** Grouped bars, one group a value of x. */
    public static Plot bar(Table table) {
        return new Plot(table, Plot.ChartKind.BAR);
    }

    /** Unjoined points over a numeric x. */
    public static Plot scatter(Table table) {
        return new Plot(table, Plot.ChartKind.SCATTER);
    }

    /**
     * A tidy table from arrays, for a chart of numbers that were just computed.
     *
     * @param series y values by series name, each as long as {@code x}
     * @return columns {@code x}, {@code y}, {@code series}
     * @throws IllegalArgumentException where a series is shorter or longer than x
     */
    public static Table table(double[] x, Map<String, double[]> series) {
        var xs = DoubleColumn.create("x");
        var ys = DoubleColumn.create("y");
        var names = StringColumn.create("series");
        series.forEach((name, y) -> {
            if (y.length != x.length) {
                throw new IllegalArgumentException(
                        "series " + name + " has " + y.length + " values; x has " + x.length);
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
