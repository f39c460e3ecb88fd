package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.charts.Plot;
import cs336.figures.TilePanel.Way;
import cs336.numbers.MeasurementQuery;
import java.util.List;
import java.util.function.ToDoubleFunction;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

/**
 * The figures of the chapter on FlashAttention, from what {@code cs336 flash} and its peer stored: one head, causal.
 */
public final class FlashFigures {
    /**
     * What an H200's tensor cores do with dense bf16 or fp16 matrices by its data sheet (which counts a clock that they
     * do not keep up under load), in FLOP/s.
     */
    public static final double PEAK = 989e12;

    private static final double TERA = 1e12;
    private static final double MS = 1e-3;
    private static final double MB = 1e6;
    private static final String DERIVED = "derived";
    private static final List<String> PASSES = List.of("forward", "backward", "forward-backward");
    private static final List<String> HALF = List.of("plain", "sdpa-flash", "sdpa-cudnn", "flash");
    private static final List<String> SINGLE = List.of("plain", "sdpa-efficient", "flash-3xtf32", "flash-tf32");

    private FlashFigures() {}

    /**
     * Operations that the products of attention take: 2·d for a score and as many for its part of the output, and in
     * the backward pass five such products instead of two. Scores that a causal mask hides are not counted; of T² about
     * half.
     *
     * @param pass {@code forward}, {@code backward} or {@code forward-backward}
     * @param sequences batch times heads
     * @throws IllegalArgumentException if there is no such pass
     */
    public static double operations(String pass, int sequences, int context, int d, boolean causal) {
        double products = switch (pass) {
            case "forward" -> 2;
            case "backward" -> 5;
            case "forward-backward" -> 7;
            default ->
                throw new IllegalArgumentException("pass must be forward, backward or forward-backward, not " + pass);
        };
        double scores = (double) sequences * context * context;
        return products * 2 * d * (causal ? scores / 2 : scores);
    }

    /** Which tiles of QKᵀ are computed, masked and skipped, and which of them one block visits in which order. */
    public static Figure tiles() {
        int tokens = 24;
        int tile = 4;
        var full = new ScoreTiles(tokens, tokens, tile, tile, false);
        var causal = new ScoreTiles(tokens, tokens, tile, tile, true);
        return new Figure(
                "flash-tiles",
                "The matrix of scores of 24 tokens cut into 6 × 6 tiles, three times. Without a mask all tiles are computed."
                        + " With a causal mask the 15 tiles before the diagonal are computed, the 6 on it are computed and"
                        + " masked in part, and the 15 after it are skipped. Forward, a block visits the tiles of one row"
                        + " from left to right; backward, those of one column from the diagonal down",
                840,
                330,
                List.of(
                        new TilePanel("no mask, forward", full, Way.ALONG_KEYS, 3, true),
                        new TilePanel("causal, forward", causal, Way.ALONG_KEYS, 3, false),
                        new TilePanel("causal, backward", causal, Way.ALONG_QUERIES, 2, false)));
    }

    /** Time of each pass over the context in bf16, d 64. */
    public static Figure times(MeasurementQuery numbers) {
        return times(numbers, "flash-times", "bf16", HALF);
    }

    /** Time of each pass over the context in fp32, d 64. */
    public static Figure timesInSinglePrecision(MeasurementQuery numbers) {
        return times(numbers, "flash-times-fp32", "fp32", SINGLE);
    }

    private static Figure times(MeasurementQuery numbers, String name, String dtype, List<String> shown) {
        return named(Charts.line(select(numbers, dtype, List.of(64), PASSES, shown)))
                .x("context", "context (tokens)")
                .y("median", "time (ms)")
                .by("implementation")
                .panels("metric")
                .log2X()
                .logY()
                .size(980, 360)
                .figure(
                        name,
                        "Time of forward pass, backward pass and both over the context, one head, d 64, " + dtype
                                + ", causal, for plain attention, PyTorch's fused kernels and this project's");
    }

    /** How many operations a second each implementation reaches over the context in bf16, d 64, a panel a pass. */
    public static Figure rates(MeasurementQuery numbers) {
        return named(Charts.line(rates(select(numbers, "bf16", List.of(64), PASSES, HALF), TERA)))
                .x("context", "context (tokens)")
                .y(DERIVED, "TFLOP/s")
                .by("implementation")
                .panels("metric")
                .log2X()
                .size(980, 360)
                .figure(
                        "flash-rates",
                        "TFLOP/s of forward pass, backward pass and both over the context, one head, d 64, bf16, causal,"
                                + " counting the operations of scores that are not masked");
    }

    /** The same for both passes as a share of {@link #PEAK}, a panel for each d. */
    public static Figure shareOfPeak(MeasurementQuery numbers) {
        Table rows = select(numbers, "bf16", List.of(16, 32, 64, 128), List.of("forward-backward"), HALF);
        return named(Charts.line(rates(rows, PEAK / 100)))
                .x("context", "context (tokens)")
                .y(DERIVED, "share of 989 TFLOP/s (%)")
                .by("implementation")
                .panels("d")
                .log2X()
                .size(980, 340)
                .figure(
                        "flash-share-of-peak",
                        "Share of the tensor cores' nominal peak that forward and backward pass together reach over the"
                                + " context, one head, bf16, causal, a panel for each d");
    }

    /** Peak memory of forward and backward pass above the inputs over the context, d 64. */
    public static Figure memory(MeasurementQuery numbers) {
        List<String> metric = List.of("peak-memory");
        Table rows = select(numbers, "bf16", List.of(64), metric, HALF)
                .append(select(
                        numbers, "fp32", List.of(64), metric, List.of("plain", "sdpa-efficient", "flash-3xtf32")));
        return named(Charts.line(derived(rows, row -> row.getDouble("median") / MB)))
                .x("context", "context (tokens)")
                .y(DERIVED, "memory above the inputs (MB)")
                .by("implementation")
                .panels("dtype")
                .log2X()
                .logY()
                .size(860, 360)
                .figure(
                        "flash-memory",
                        "Peak memory of forward and backward pass above the inputs over the context, one head, d 64,"
                                + " causal: plain attention grows with the square of the context, the others with the"
                                + " context");
    }

    /**
     * One head, causal: what worked, in the order of the arguments, so that panels stand and colours go in it whatever
     * was measured first.
     */
    private static Table select(
            MeasurementQuery numbers,
            String dtype,
            List<Integer> ds,
            List<String> metrics,
            List<String> implementations) {
        Table all = null;
        for (String metric : metrics) {
            for (int d : ds) {
                for (String implementation : implementations) {
                    Table rows = numbers.select(("flash_benchmarking[batch=1, heads=1, causal=true, status=ok,"
                                    + " dtype=%s, d=%s, metric=%s, implementation=%s]")
                            .formatted(dtype, d, metric, implementation));
                    all = all == null ? rows : all.append(rows);
                }
            }
        }
        return all;
    }

    /** With operations a second, in some unit, beside the times. */
    private static Table rates(Table times, double unit) {
        return derived(times, row -> {
            double operations = operations(
                    row.getString("metric"),
                    row.getInt("batch") * row.getInt("heads"),
                    row.getInt("context"),
                    row.getInt("d"),
                    true);
            return operations / (row.getDouble("median") * MS) / unit;
        });
    }

    private static Table derived(Table rows, ToDoubleFunction<Row> value) {
        DoubleColumn values = DoubleColumn.create(DERIVED);
        for (Row row : rows) {
            values.append(value.applyAsDouble(row));
        }
        return rows.copy().addColumns(values);
    }

    private static Plot named(Plot plot) {
        return plot.rename("forward-backward", "forward + backward")
                .rename("sdpa-flash", "PyTorch FA2")
                .rename("sdpa-cudnn", "PyTorch cuDNN")
                .rename("sdpa-efficient", "PyTorch efficient")
                .rename("flash-tf32", "flash, TF32")
                .rename("flash-3xtf32", "flash, 3×TF32")
                .rename("16", "d 16")
                .rename("32", "d 32")
                .rename("64", "d 64")
                .rename("128", "d 128");
    }
}
