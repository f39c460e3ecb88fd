package cs336.bench;

import cs336.units.UnitFactors;
import java.util.List;
import java.util.Objects;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * The result of a {@link Benchmark}.
 *
 * @param title description of the benchmark
 * @param samples the samples of each metric, in the order of the table's rows
 */
public record BenchmarkResult(String title, List<Samples> samples) {
    public BenchmarkResult {
        Objects.requireNonNull(samples, "samples must not be null");
        samples = List.copyOf(samples);
    }

    /**
     * Returns the samples of a metric.
     *
     * @throws IllegalArgumentException if the metric was not measured; the message lists the measured metrics
     */
    public Samples samples(String metric) {
        for (Samples s : samples) {
            if (s.metric().name().equals(metric)) {
                return s;
            }
        }
        throw new IllegalArgumentException("metric '" + metric + "' was not measured; measured: "
                + samples.stream().map(s -> s.metric().name()).toList());
    }

    /**
     * Returns a table with one row for each metric and the columns {@code metric}, {@code unit}, {@code n},
     * {@code mean}, {@code std}, {@code median}, {@code min}, {@code max}. Numbers of bytes are in MB.
     */
    public Table table() {
        var metric = StringColumn.create("metric");
        var unit = StringColumn.create("unit");
        var n = IntColumn.create("n");
        var statistics = List.of("mean", "std", "median", "min", "max").stream()
                .map(DoubleColumn::create)
                .toList();
        for (Samples s : samples) {
            Summary summary = s.summary();
            metric.append(s.metric().name());
            boolean bytes = s.metric().unit().equals("bytes");
            double one = bytes ? UnitFactors.MB : 1;
            unit.append(bytes ? "MB" : s.metric().unit());
            n.append(summary.n());
            statistics.get(0).append(summary.mean() / one);
            statistics.get(1).append(summary.std() / one);
            statistics.get(2).append(summary.median() / one);
            statistics.get(3).append(summary.min() / one);
            statistics.get(4).append(summary.max() / one);
        }
        Table table = Table.create(title, metric, unit, n);
        statistics.forEach(table::addColumns);
        return table;
    }

    /** Returns the title and the table as aligned text. */
    @Override
    public String toString() {
        return title + "\n" + AlignedText.of(table());
    }
}
