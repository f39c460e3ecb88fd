package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import java.util.ArrayList;
import tech.tablesaw.api.Row;

/**
 * The figures of the chapter on mixed precision, from measurements of {@code cs336 benchmark} and {@code cs336
 * precision}.
 */
public final class MixedPrecisionFigures {
    private static final String TIMES = "benchmarking_mixed_precision[year=2025, implementation=plain,"
            + " pass=forward-backward, metric=forward, backward, dtype=";

    private MixedPrecisionFigures() {}

    /** A bar: the time of a pass in fp32 divided by its time in another precision. */
    private record PrecisionSpeedup(String size, String dtype, String metric, double ratio) {}

    /** Plots the times of forward and backward pass per model size in fp32, with TF32, and under autocast to bf16. */
    public static Figure times(MeasurementQuery numbers) {
        return Charts.bar(numbers.select(TIMES + "fp32, tf32, bf16]"))
                .x("size", "size of the model")
                .y("mean", "time (ms)")
                .by("dtype")
                .panels("metric")
                .logY()
                .size(960, 340)
                .figure(
                        "mixed-precision-times",
                        "Time of forward and backward pass of each size of the model in fp32, with TF32 matrix multiplications, and under"
                                + " autocast to bf16");
    }

    /** Plots the speedup of forward and backward pass over fp32 with TF32 and under autocast to bf16. */
    public static Figure speedup(MeasurementQuery numbers) {
        var speedups = new ArrayList<PrecisionSpeedup>();
        for (Row narrow : numbers.select(TIMES + "tf32, bf16]")) {
            String same =
                    "benchmarking_mixed_precision[year=2025, implementation=plain, pass=forward-backward, size=%s,"
                                    .formatted(narrow.getString("size"))
                            + " metric=%s, dtype=%%s].median".formatted(narrow.getString("metric"));
            String ratio = same.formatted("fp32") + " / " + same.formatted(narrow.getString("dtype"));
            speedups.add(new PrecisionSpeedup(
                    narrow.getString("size"),
                    narrow.getString("dtype"),
                    narrow.getString("metric"),
                    numbers.quantity(ratio).value()));
        }
        return Charts.bar(Tables.of(PrecisionSpeedup.class, speedups))
                .x("size", "size of the model")
                .y("ratio", "time in fp32 ÷ time")
                .by("dtype")
                .panels("metric")
                .level(1, "fp32")
                .size(960, 340)
                .figure(
                        "mixed-precision-speedup",
                        "Median time of forward and backward pass in fp32 over that with TF32 matrix multiplications and over that under"
                                + " autocast to bf16, for each size of the model");
    }

    /** Plots the error of a layer normalisation with one of its operations in fp16 or bf16. */
    public static Figure layerNorm(MeasurementQuery numbers) {
        return Charts.bar(numbers.select("mixed_precision[experiment=layer-norm, on=cuda,"
                        + " metric=mean, centring, squares, variance, root, product]"))
                .x("metric", "the part that is narrow")
                .y("mean", "error ÷ result")
                .by("input", "rows: ")
                .panels("dtype")
                .logY()
                .size(960, 340)
                .figure(
                        "mixed-precision-layer-norm",
                        "Relative error of a layer normalisation of which one part is computed in fp16 or bf16 and the rest in"
                                + " fp32, for rows of four kinds");
    }
}
