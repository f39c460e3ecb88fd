package cs336.precision;

import cs336.bench.Metric;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/** The experiments of this package as cases of a sweep: which types, which inputs, and what is read from each. */
enum Experiment {
    /** {@link FloatFormat}: what the type can hold. */
    FORMAT(
            List.of("fp32", "fp16", "bf16"),
            List.of("powers of 2"),
            new Metric("significant-bits", "bits"),
            new Metric("largest", ""),
            new Metric("smallest", "")),
    /** {@link Accumulation}: 0.01 added 1,000 times; the narrow type's own 0.01 and its spacing at the sum. */
    ACCUMULATION(
            List.of("fp16", "bf16"),
            List.of("0.01"),
            Stream.concat(names(Accumulation.values()), Stream.of("term", "spacing"))
                    .map(name -> new Metric(name, ""))
                    .toArray(Metric[]::new)),
    /** {@link MatmulBits}: what a matrix product sees of its operands. */
    PRODUCT(List.of("fp32", "tf32", "bf16", "fp16"), List.of("above 1"), new Metric("significant-bits", "bits")),
    /** {@link AutocastToyModel}: the types that autocast gives its parts, each told by its significant bits. */
    TOY_MODEL(
            List.of("fp16", "bf16"),
            List.of("ordinary"),
            Stream.of("parameters", "fc1", "relu", "ln", "logits", "loss", "gradients", "fc1-gradient")
                    .map(part -> new Metric(part, "bits"))
                    .toArray(Metric[]::new)),
    /** {@link NarrowLayerNorm}: the error with each part narrow, with all of them, and of PyTorch's own. */
    LAYER_NORM(
            List.of("fp16", "bf16"),
            Stream.of(NarrowLayerNorm.Input.values()).map(Object::toString).toList(),
            Stream.concat(names(LayerNormStep.values()), Stream.of("all", "native"))
                    .map(name -> new Metric(name, ""))
                    .toArray(Metric[]::new)),
    /** {@link GradientUnderflow}: what is lost of gradients without a loss scale and with one. */
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

    /** Types, by the names of {@link cs336.torch.DType} or {@link cs336.bench.Precision}. */
    List<String> dtypes() {
        return dtypes;
    }

    /** What the experiment is done on; on the CPU, gradients of few tokens only, to take seconds. */
    List<String> inputs(boolean cuda) {
        return this == GRADIENT && !cuda ? inputs.subList(0, 1) : inputs;
    }

    List<Metric> metrics() {
        return metrics;
    }

    static Experiment parse(String label) {
        return valueOf(label.toUpperCase(Locale.ROOT).replace('-', '_'));
    }

    /** As it stands in the stored measurements. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
