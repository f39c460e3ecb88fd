package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/**
 * The figures of the chapter on mixed precision, from what {@code cs336 benchmark} and {@code cs336 precision} stored.
 */
public final class MixedPrecisionFigures {
    private static final String TIMES = "benchmarking_mixed_precision[year=2025, implementation=plain,"
            + " pass=forward-backward, metric=forward, backward, dtype=";

    private MixedPrecisionFigures() {}

    /** Time of forward and backward pass of every size in fp32, with TF32 products, and under autocast to bf16. */
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
                        "Time of forward and backward pass of each size of the model in fp32, with TF32 products, and under"
                                + " autocast to bf16");
    }

    /** How many times as fast as in fp32 each size's passes are with TF32 products and under autocast to bf16. */
    public static Figure speedup(MeasurementQuery numbers) {
        Table ratios = Table.create(
                StringColumn.create("size"),
                StringColumn.create("dtype"),
                StringColumn.create("metric"),
                DoubleColumn.create("ratio"));
        for (Row narrow : numbers.select(TIMES + "tf32, bf16]")) {
            String same =
                    "benchmarking_mixed_precision[year=2025, implementation=plain, pass=forward-backward, size=%s,"
                                    .formatted(narrow.getString("size"))
                            + " metric=%s, dtype=%%s].median".formatted(narrow.getString("metric"));
            String ratio = same.formatted("fp32") + " / " + same.formatted(narrow.getString("dtype"));
            Row row = ratios.appendRow();
            row.setString("size", narrow.getString("size"));
            row.setString("dtype", narrow.getString("dtype"));
            row.setString("metric", narrow.getString("metric"));
            row.setDouble("ratio", numbers.quantity(ratio).value());
        }
        return Charts.bar(ratios)
                .x("size", "size of the model")
                .y("ratio", "time in fp32 ÷ time")
                .by("dtype")
                .panels("metric")
                .level(1, "fp32")
                .size(960, 340)
                .figure(
                        "mixed-precision-speedup",
                        "Median time of forward and backward pass in fp32 over that with TF32 products and over that under"
                                + " autocast to bf16, for each size of the model");
    }

    /** The error of a layer normalisation of which one part is computed in fp16 or bf16. */
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
