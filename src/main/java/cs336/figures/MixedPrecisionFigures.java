package cs336.figures;

import cs336.basics.ModelSize;
import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.units.Separators;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import tech.tablesaw.api.Row;

/**
 * The figures of the chapter on mixed precision, from measurements of {@code cs336 benchmark} and {@code cs336
 * precision}.
 */
public final class MixedPrecisionFigures {
    private static final String TIMES = "benchmarking_mixed_precision[year=2025, implementation=plain,"
            + " pass=forward-backward, metric=forward, backward, dtype=";

    private static final String KERNEL_TIMES = "profiling[year=2025, implementation=plain, pass=step,"
            + " metric=forward-kernels, backward-kernels, dtype=";

    /** A bar: the kernel time of a pass in fp32 divided by its kernel time in bf16. */
    private record PrecisionSpeedup(String size, int tokens, String context, String pass, double ratio) {}

    private MixedPrecisionFigures() {}

    /** Plots the times of forward and backward pass per model size in fp32, with TF32, and under autocast to bf16. */
    public static Figure times(MeasurementQuery numbers) {
        return Charts.bar(numbers.select(TIMES + "fp32, tf32, bf16]"))
                .x("size", "size of the model")
                .y("mean", "time (ms)")
                .by("dtype")
                .panels("metric")
                .logY()
                .size(960, 290)
                .figure(
                        "mixed-precision-times",
                        "Time of forward and backward pass of each size of the model in fp32, with TF32 matrix multiplications, and under"
                                + " autocast to bf16");
    }

    /**
     * Plots the speedup of bf16 over fp32 in GPU kernel time of forward and backward pass, by model size and context.
     */
    public static Figure speedup(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var speedups = new ArrayList<PrecisionSpeedup>();
        for (Row narrow : numbers.select(KERNEL_TIMES + "bf16]")) {
            String same =
                    "profiling[year=2025, implementation=plain, pass=step, size=%s, context=%s, metric=%s, dtype=%%s].median"
                            .formatted(narrow.getString("size"), narrow.getInt("context"), narrow.getString("metric"));
            String ratio = same.formatted("fp32") + " / " + same.formatted("bf16");
            speedups.add(new PrecisionSpeedup(
                    narrow.getString("size"),
                    narrow.getInt("context"),
                    Separators.of(narrow.getInt("context")) + " tokens",
                    narrow.getString("metric").replace("-kernels", " pass"),
                    numbers.quantity(ratio).value()));
        }
        List<String> sizes =
                Arrays.stream(ModelSize.values()).map(ModelSize::label).toList();
        speedups.sort(Comparator.comparing(PrecisionSpeedup::pass)
                .reversed()
                .thenComparing(speedup -> sizes.indexOf(speedup.size))
                .thenComparing(PrecisionSpeedup::tokens));
        return Charts.bar(Tables.of(PrecisionSpeedup.class, speedups))
                .x("size", "size of the model")
                .y("ratio", "kernel time in fp32 ÷ in bf16")
                .by("context", "context: ")
                .panels("pass")
                .size(960, 290)
                .origin(numbers.origin())
                .figure(
                        "mixed-precision-speedup",
                        "Kernel time of forward and backward pass in fp32 over that under autocast to bf16, for each size of the"
                                + " model and contexts of 128 to 1,024 tokens: it grows with the size of the model");
    }

    /** Plots the error of a layer normalization with one of its operations in fp16 or bf16. */
    public static Figure layerNorm(MeasurementQuery numbers) {
        return Charts.bar(numbers.select("mixed_precision[experiment=layer-norm, on=cuda,"
                        + " metric=mean, centring, squares, variance, root, product]"))
                .x("metric", "operation in fp16 or bf16")
                .y("mean", "relative error of the output")
                .by("input", "rows: ")
                .panels("dtype")
                .logY()
                .size(960, 290)
                .figure(
                        "mixed-precision-layer-norm",
                        "Relative error of a layer normalization with one operation in fp16 or bf16 and the others in"
                                + " fp32, for rows of four kinds");
    }
}
