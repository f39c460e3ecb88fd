package cs336.precision;

import cs336.bench.Metric;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/** The experiments of this package with their dtypes, inputs and metrics. */
enum Experiment {
    /** {@link FloatFormat}: precision and range of a type. */
    FORMAT(
            List.of("fp32", "fp16", "bf16"),
            List.of("powers of 2"),
            new Metric("significant-bits", "bits"),
            new Metric("largest", ""),
            new Metric("smallest", "")),
    /**
     * {@link Accumulation}: the sum of 1,000 terms of 0.01 by each method, the value of 0.01 in the low-precision type,
     * and the spacing of this type at its sum.
     */
    ACCUMULATION(
            List.of("fp16", "bf16"),
            List.of("0.01"),
            Stream.concat(names(Accumulation.values()), Stream.of("term", "spacing"))
                    .map(name -> new Metric(name, ""))
                    .toArray(Metric[]::new)),
    /** {@link MatmulBits}: the significant bits that a matrix multiplication keeps of its operands. */
    PRODUCT(List.of("fp32", "tf32", "bf16", "fp16"), List.of("above 1"), new Metric("significant-bits", "bits")),
    /** {@link AutocastToyModel}: the dtypes of its tensors under autocast, as their significant bits. */
    TOY_MODEL(
            List.of("fp16", "bf16"),
            List.of("ordinary"),
            Stream.of("parameters", "fc1", "relu", "ln", "logits", "loss", "gradients", "fc1-gradient")
                    .map(part -> new Metric(part, "bits"))
                    .toArray(Metric[]::new)),
    /**
     * {@link LowPrecisionLayerNorm}: the errors of a layer norm with one step in the low-precision type, with all steps
     * in it, and of PyTorch's layer norm.
     */
    LAYER_NORM(
            List.of("fp16", "bf16"),
            Stream.of(LowPrecisionLayerNorm.Input.values())
                    .map(Object::toString)
                    .toList(),
            Stream.concat(names(LayerNormStep.values()), Stream.of("all", "native"))
                    .map(name -> new Metric(name, ""))
                    .toArray(Metric[]::new)),
    /** {@link GradientUnderflow}: the gradients that underflow to zero, without and with loss scaling. */
    GRADIENT(
            List.of("fp16", "bf16"),
            List.of("512 tokens", "2048 tokens", "8192 tokens"),
            new Metric("lost", ""),
            new Metric("error", ""),
            new Metric("lost-scaled", ""),
            new Metric("error-scaled", ""));

    private final List<String> dtypes;
    private final List<String> inputs;
    private final List<Metric> metrics;

    Experiment(List<String> dtypes, List<String> inputs, Metric... metrics) {
        this.dtypes = dtypes;
        this.inputs = inputs;
        this.metrics = List.of(metrics);
    }

    private static Stream<String> names(Enum<?>[] values) {
        return Arrays.stream(values).map(value -> value.name().toLowerCase(Locale.ROOT));
    }

    /** Returns the names of the {@link cs336.torch.DType}s or {@link cs336.bench.Precision}s to run with. */
    List<String> dtypes() {
        return dtypes;
    }

    /**
     * Returns the names of the inputs. On the CPU {@link #GRADIENT} has only its smallest input, to finish in seconds.
     */
    List<String> inputs(boolean cuda) {
        return this == GRADIENT && !cuda ? inputs.subList(0, 1) : inputs;
    }

    List<Metric> metrics() {
        return metrics;
    }

    static Experiment parse(String label) {
        return valueOf(label.toUpperCase(Locale.ROOT).replace('-', '_'));
    }

    /** Returns the name in the stored measurements. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
