package cs336.figures;

import cs336.basics.ModelSize;
import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import tech.tablesaw.api.Row;

/** The figure of the chapter on the compiler, from measurements of {@code cs336 compile} and of torch.compile. */
public final class CompilerFigures {
    private static final List<String> SETTINGS = List.of("2025, 128 tokens", "2025, 512 tokens", "2024, 128 tokens");
    private static final List<String> PASSES =
            List.of("bf16, forward", "bf16, step", "TF32, forward", "TF32, step", "fp32, forward", "fp32, step");

    private CompilerFigures() {}

    /** A bar: the compiled pass's median time divided by that of torch.compile with CUDA graphs. */
    private record CompiledRatio(String size, String pass, String setting, double ratio) {
        int order() {
            int panelAndSize = SETTINGS.indexOf(setting) * ModelSize.values().length
                    + ModelSize.parse(size).ordinal();
            return panelAndSize * PASSES.size() + PASSES.indexOf(pass);
        }
    }

    /**
     * Plots the median time of compiled forward passes and training steps divided by that of torch.compile with CUDA
     * graphs, for each model size, dtype, context and edition of the course, and notes the geometric mean.
     */
    public static Figure comparedWithTorchCompile(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        List<CompiledRatio> ratios = new ArrayList<>();
        for (Row pair :
                numbers.select("torch_compile[metric=total, warmup=5, implementation=pytorch-reduce-overhead]")) {
            String same = ("torch_compile[year=%s, size=%s, context=%s, dtype=%s, pass=%s, metric=total, warmup=5,"
                            + " implementation=%%s].median")
                    .formatted(
                            pair.getObject("year"),
                            pair.getString("size"),
                            pair.getObject("context"),
                            pair.getString("dtype"),
                            pair.getString("pass"));
            String ratio = same.formatted("flash+fused") + " / " + same.formatted("pytorch-reduce-overhead");
            ratios.add(new CompiledRatio(
                    pair.getString("size"),
                    pair.getString("dtype").replace("tf32", "TF32") + ", " + pair.getString("pass"),
                    pair.getObject("year") + ", " + pair.getObject("context") + " tokens",
                    numbers.quantity(ratio).value()));
        }
        ratios.sort(Comparator.comparingInt(CompiledRatio::order));
        double mean = Math.exp(ratios.stream()
                .mapToDouble(ratio -> Math.log(ratio.ratio))
                .average()
                .orElseThrow());
        return Charts.bar(Tables.of(CompiledRatio.class, ratios))
                .x("size", "size of the model")
                .y("ratio", "time ÷ time of torch.compile")
                .by("pass")
                .panels("setting")
                .level(1, String.format(Locale.ROOT, "as fast; geometric mean of all: %.2f", mean))
                .size(960, 290)
                .origin(numbers.origin())
                .figure(
                        "compiler-compared-with-torch-compile",
                        "Median time of compiled forward passes and training steps over that of torch.compile with CUDA"
                                + " graphs, for each size of the model, dtype and context, measured in pairs");
    }
}
