package cs336.figures;

import static cs336.units.UnitFactors.MB;
import static cs336.units.UnitFactors.SECONDS_PER_MS;
import static cs336.units.UnitFactors.TERA;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.charts.Plot;
import cs336.figures.TilePanel.TilePath;
import cs336.numbers.MeasurementQuery;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

/**
 * The figures of the chapter on FlashAttention, from measurements of {@code cs336 flash} and {@code peers/attention.py}
 * with one head and a causal mask.
 */
public final class FlashFigures {
    /**
     * The peak rate of an H200's tensor cores for dense bf16 or fp16 matrices, in FLOP/s, from its data sheet. It
     * assumes a clock rate that the GPU does not sustain under load.
     */
    public static final double PEAK = 989e12;

    private static final String DERIVED = "derived";
    private static final List<String> PASSES = List.of("forward", "backward", "forward-backward");
    private static final List<String> HALF = List.of("plain", "sdpa-flash", "sdpa-cudnn", "flash");
    private static final List<String> SINGLE = List.of("plain", "sdpa-efficient", "flash-3xtf32", "flash-tf32");

    private FlashFigures() {}

    /**
     * Returns the FLOPs of attention's matrix multiplications. Each of them takes 2·d FLOPs per score; the forward pass
     * has two, the backward pass five. Scores that a causal mask hides, about half of the T², are not counted.
     *
     * @param pass {@code forward}, {@code backward} or {@code forward-backward}
     * @param sequences batch size times number of heads
     * @param context sequence length T
     * @param d head dimension
     * @throws IllegalArgumentException if there is no such pass
     */
    public static double flops(String pass, int sequences, int context, int d, boolean causal) {
        double matmuls = switch (pass) {
            case "forward" -> 2;
            case "backward" -> 5;
            case "forward-backward" -> 7;
            default ->
                throw new IllegalArgumentException("pass must be forward, backward or forward-backward, not " + pass);
        };
        double scores = (double) sequences * context * context;
        return matmuls * 2 * d * (causal ? scores / 2 : scores);
    }

    /** Draws the tiles of QKᵀ (computed, masked or skipped) and the order in which a thread block visits them. */
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
                        new TilePanel("no mask, forward", full, TilePath.ALONG_KEYS, 3, true),
                        new TilePanel("causal, forward", causal, TilePath.ALONG_KEYS, 3, false),
                        new TilePanel("causal, backward", causal, TilePath.ALONG_QUERIES, 2, false)));
    }

    /** Draws tiles of QKᵀ and the order in which the thread block of the last queries visits them. */
    public static Figure tiles(ScoreTiles tiles) {
        String mask = tiles.causal() ? "causal mask" : "no mask";
        long skipped = tiles.count(ScoreTiles.TileState.SKIPPED);
        return new Figure(
                "flash-tiles-" + tiles.queryTile() + "-" + mask.replace(' ', '-'),
                String.format(
                        Locale.ROOT,
                        "The matrix of scores of %,d tokens cut into %d × %d tiles, %s: %d tiles are skipped",
                        tiles.queries(),
                        tiles.rows(),
                        tiles.columns(),
                        mask,
                        skipped),
                420,
                440,
                List.of(new TilePanel(mask, tiles, TilePanel.TilePath.ALONG_KEYS, tiles.rows() - 1, true)));
    }

    /** Plots the time of each pass by context length in bf16, d 64. */
    public static Figure times(MeasurementQuery numbers) {
        return times(numbers, "flash-times", "bf16", HALF);
    }

    /** Plots the time of each pass by context length in fp32, d 64. */
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

    /** Plots the TFLOP/s of each implementation by context length in bf16, d 64, one panel per pass. */
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
                                + " counting the FLOPs of scores that are not masked");
    }

    /** Plots the rate of both passes together as a percentage of {@link #PEAK}, one panel per d. */
    public static Figure fractionOfPeak(MeasurementQuery numbers) {
        Table rows = select(numbers, "bf16", List.of(16, 32, 64, 128), List.of("forward-backward"), HALF);
        return named(Charts.line(rates(rows, PEAK / 100)))
                .x("context", "context (tokens)")
                .y(DERIVED, "percentage of 989 TFLOP/s")
                .by("implementation")
                .panels("d")
                .log2X()
                .size(980, 340)
                .figure(
                        "flash-share-of-peak",
                        "Percentage of the tensor cores' nominal peak that forward and backward pass together reach over the"
                                + " context, one head, bf16, causal, one panel per d");
    }

    /** Plots the peak memory of forward and backward pass in addition to the inputs by context length, d 64. */
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
     * Returns the successful measurements in the order of the arguments, so that panels and colours do not depend on
     * the order of measurement.
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

    /**
     * Returns the rows with the FLOP rate as a further column.
     *
     * @param unit the unit of the rates, in FLOP/s
     */
    private static Table rates(Table times, double unit) {
        return derived(times, row -> {
            double flops = flops(
                    row.getString("metric"),
                    row.getInt("batch") * row.getInt("heads"),
                    row.getInt("context"),
                    row.getInt("d"),
                    true);
            return flops / (row.getDouble("median") * SECONDS_PER_MS) / unit;
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
