package cs336.precision;

import cs336.basics.GradScaler;
import cs336.basics.TransformerConfig;
import cs336.basics.TransformerLM;
import cs336.bench.Case;
import cs336.bench.Metric;
import cs336.bench.Precision;
import cs336.bench.Samples;
import cs336.bench.Workload;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.Torch;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;

/** The workload that runs an {@link Experiment} as a case of a sweep. */
public final class PrecisionWorkload implements Workload {
    private static final int ADDITIONS = 1_000;
    private static final int ROWS = 64;
    private static final int WIDTH = 1_024;
    private static final int SEQUENCES = 4;

    /**
     * Returns the case of an experiment, without the setting {@code device}.
     *
     * @param on {@code cpu}, or {@code cuda} for the sweep's device
     * @param dtype one of {@link Experiment#dtypes}
     * @param input one of {@link Experiment#inputs}
     */
    static Case of(Experiment experiment, String on, String dtype, String input) {
        return Case.of(PrecisionWorkload.class, "torch")
                .with("experiment", experiment)
                .with("on", on)
                .with("dtype", dtype)
                .with("input", input)
                .yields(experiment.metrics().toArray(Metric[]::new));
    }

    @Override
    public void run(Case c, Consumer<Samples> record) {
        Torch.seed(0);
        Experiment experiment = Experiment.parse(c.text("experiment"));
        Device device = c.text("on").equals("cpu") ? Device.cpu() : Device.parse(c.text("device"));
        Map<String, Double> values = values(experiment, device, c.text("dtype"), c.text("input"));
        experiment.metrics().forEach(metric -> record.accept(Samples.once(metric, values.get(metric.name()))));
    }

    private static Map<String, Double> values(Experiment experiment, Device device, String type, String input) {
        return switch (experiment) {
            case FORMAT -> format(FloatFormat.of(DType.parse(type)));
            case ACCUMULATION -> accumulation(FloatFormat.of(DType.parse(type)), Double.parseDouble(input));
            case PRODUCT -> Map.of("significant-bits", (double) MatmulBits.of(Precision.parse(type), device));
            case TOY_MODEL -> toyModel(device, DType.parse(type));
            case LAYER_NORM -> layerNorm(device, DType.parse(type), LowPrecisionLayerNorm.Input.parse(input));
            case GRADIENT -> gradient(device, DType.parse(type), Integer.parseInt(input.split(" ")[0]));
        };
    }

    private static Map<String, Double> format(FloatFormat format) {
        return Map.of(
                "significant-bits", (double) format.significantBits(),
                "largest", format.largest(),
                "smallest", format.smallest());
    }

    private static Map<String, Double> accumulation(FloatFormat narrow, double term) {
        Map<String, Double> values = new LinkedHashMap<>();
        for (Accumulation accumulation : Accumulation.values()) {
            values.put(accumulation.name().toLowerCase(Locale.ROOT), accumulation.run(narrow.dtype(), term, ADDITIONS));
        }
        values.put("term", narrow.round(term));
        values.put("spacing", narrow.spacing(values.get("narrow")));
        return values;
    }

    private static Map<String, Double> toyModel(Device device, DType autocast) {
        Map<String, Double> values = new LinkedHashMap<>();
        AutocastToyModel.dtypes(device, autocast)
                .forEach((tensor, dtype) ->
                        values.put(tensor, (double) FloatFormat.of(dtype).significantBits()));
        return values;
    }

    private static Map<String, Double> layerNorm(Device device, DType narrow, LowPrecisionLayerNorm.Input input) {
        Map<String, Double> values = new LinkedHashMap<>();
        try (var scope = MemoryScope.open()) {
            Tensor x = input.draw(ROWS, WIDTH, narrow, device);
            for (LayerNormStep step : LayerNormStep.values()) {
                values.put(
                        step.toString(),
                        LowPrecisionLayerNorm.of(narrow, EnumSet.of(step)).error(x));
            }
            values.put(
                    "all",
                    LowPrecisionLayerNorm.of(narrow, EnumSet.allOf(LayerNormStep.class))
                            .error(x));
            values.put("native", LowPrecisionLayerNorm.nativeError(x, narrow));
            return values;
        }
    }

    private static Map<String, Double> gradient(Device device, DType narrow, int tokens) {
        int context = tokens / SEQUENCES;
        TransformerConfig config = TransformerConfig.builder()
                .contextLength(context)
                .dModel(64)
                .numLayers(2)
                .numHeads(2)
                .dFf(256)
                .build();
        try (var model = new TransformerLM(config, device);
                var noScaling = GradScaler.disabled();
                var scaler = new GradScaler(device)) {
            var unscaled = GradientUnderflow.of(model, SEQUENCES, context, narrow, noScaling);
            var scaled = GradientUnderflow.of(model, SEQUENCES, context, narrow, scaler);
            return Map.of(
                    "lost", unscaled.lost(),
                    "error", unscaled.error(),
                    "lost-scaled", scaled.lost(),
                    "error-scaled", scaled.error());
        }
    }
}
