package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.charts.Plot;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import java.util.ArrayList;
import tech.tablesaw.api.Row;

/** The figures of the chapter on RMSNorm, from measurements of {@code cs336 norms} and {@code peers/norms.py}. */
public final class RmsNormFigures {
    private static final String PASSES =
            "torch_compile_rmsnorm[rows=50000, synchronize=group, implementation=pytorch-eager,"
                    + " pytorch-layernorm, pytorch-rms_norm, rmsnorm-fused, torch-compile";

    private RmsNormFigures() {}

    /** A bar: the time that the whole model saves with a normalization, in percent of its time with plain RMSNorm. */
    private record NormalizationSaving(String size, String implementation, String pass, double saved) {}

    /** Plots the memory bandwidth of each implementation's forward pass by row width, with a copy as the roofline. */
    public static Figure roofline(MeasurementQuery numbers) {
        return named(Charts.line(numbers.select(PASSES + ", copy, metric=forward-bandwidth]")))
                .x("hidden", "width of a row (elements)")
                .y("mean", "bytes needed ÷ time (GB/s)")
                .by("implementation")
                .panels("dtype")
                .log2X()
                .logY()
                .size(960, 310)
                .figure(
                        "rmsnorm-roofline",
                        "Bandwidth of the forward pass of each implementation over the width of a row, counting one read"
                                + " and one write of the rows, next to a plain copy of the same bytes");
    }

    /** Plots the time of forward and backward pass together by row width. */
    public static Figure forwardBackward(MeasurementQuery numbers) {
        return named(Charts.line(numbers.select(PASSES + ", metric=forward-backward]")))
                .x("hidden", "width of a row (elements)")
                .y("median", "time (ms)")
                .by("implementation")
                .panels("dtype")
                .log2X()
                .logY()
                .size(960, 310)
                .figure(
                        "rmsnorm-forward-backward",
                        "Time of forward and backward pass together of each implementation over the width of a row, for"
                                + " 50,000 rows");
    }

    private static Plot named(Plot plot) {
        return plot.rename("pytorch-eager", "RMSNorm, separate operations")
                .rename("pytorch-layernorm", "LayerNorm")
                .rename("pytorch-rms_norm", "PyTorch's rms_norm")
                .rename("rmsnorm-fused", "RMSNorm, fused kernels")
                .rename("torch-compile", "RMSNorm, torch.compile");
    }

    /**
     * Plots the fraction of the whole model's time that fused RMSNorm and LayerNorm save, by model size, in the setting
     * of 2024.
     */
    public static Figure wholeModel(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        String cases = "normalization_benchmarking[year=2024, pass=forward-backward";
        var savings = new ArrayList<NormalizationSaving>();
        for (Row row :
                numbers.select(cases + ", metric=forward, backward, total, implementation=rmsnorm-fused, layernorm]")) {
            String same = cases
                    + ", size=%s, metric=%s, implementation=%%s].median"
                            .formatted(row.getString("size"), row.getString("metric"));
            String saved =
                    "100 - 100 * " + same.formatted(row.getString("implementation")) + " / " + same.formatted("plain");
            savings.add(new NormalizationSaving(
                    row.getString("size"),
                    row.getString("implementation"),
                    row.getString("metric"),
                    numbers.quantity(saved).value()));
        }
        return Charts.bar(Tables.of(NormalizationSaving.class, savings))
                .x("size", "size of the model")
                .y("saved", "time saved (%)")
                .by("implementation")
                .panels("pass")
                .rename("rmsnorm-fused", "RMSNorm, fused kernels")
                .rename("layernorm", "LayerNorm")
                .rename("total", "forward + backward")
                .size(960, 290)
                .origin(numbers.origin())
                .figure(
                        "rmsnorm-whole-model",
                        "Time that the whole model saves with fused RMSNorm and with LayerNorm, compared with RMSNorm from"
                                + " separate operations, for each size in the setting of 2024");
    }
}
