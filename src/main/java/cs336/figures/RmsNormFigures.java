package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;

/** The figures of the chapter on RMSNorm, from measurements of {@code cs336 norms} and {@code peers/norms.py}. */
public final class RmsNormFigures {
    private static final String SHOWN = "plain, rmsnorm-fused, layernorm, torch-rms_norm, torch-compile";

    private RmsNormFigures() {}

    /** Plots the memory bandwidth of each implementation's forward pass by row width, with a copy as the roofline. */
    public static Figure roofline(MeasurementQuery numbers) {
        return Charts.line(numbers.select("rmsnorm_benchmarking[rows=50000, metric=forward-bandwidth, implementation="
                        + SHOWN + ", copy]"))
                .x("hidden", "width of a row (elements)")
                .y("mean", "bytes needed ÷ time (GB/s)")
                .by("implementation")
                .panels("dtype")
                .log2X()
                .logY()
                .size(960, 360)
                .figure(
                        "rmsnorm-roofline",
                        "Bandwidth of the forward pass of each implementation over the width of a row, counting one read"
                                + " and one write of the rows, next to a plain copy of the same bytes");
    }

    /** Plots the time of forward and backward pass together by row width. */
    public static Figure forwardBackward(MeasurementQuery numbers) {
        return Charts.line(numbers.select(
                        "rmsnorm_benchmarking[rows=50000, metric=forward-backward, implementation=" + SHOWN + "]"))
                .x("hidden", "width of a row (elements)")
                .y("median", "time (ms)")
                .by("implementation")
                .panels("dtype")
                .log2X()
                .logY()
                .size(960, 360)
                .figure(
                        "rmsnorm-forward-backward",
                        "Time of forward and backward pass together of each implementation over the width of a row, for"
                                + " 50,000 rows");
    }

    /** Plots the time of the whole model's forward and backward pass with each normalisation, by model size. */
    public static Figure wholeModel(MeasurementQuery numbers) {
        return Charts.bar(numbers.select("normalization_benchmarking[pass=forward-backward, metric=total]"))
                .x("size", "size of the model")
                .y("median", "time (ms)")
                .by("implementation")
                .rename("plain", "rmsnorm")
                .panels("year")
                .logY()
                .size(960, 340)
                .figure(
                        "rmsnorm-whole-model",
                        "Time of forward and backward pass of the whole model with RMSNorm from plain operations, as"
                                + " fused kernels, and with LayerNorm, for each size in the settings of two years");
    }
}
