package cs336.figures;

import cs336.basics.ModelSize;
import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.profile.FlameGraph;
import cs336.profile.FoldedStacks;
import cs336.profile.ProfileWorkload;
import cs336.profile.Timeline;
import cs336.profile.Trace;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import tech.tablesaw.api.Row;

/** The figures of the chapter on profiling, from measurements and traces of {@code cs336 profile}. */
public final class ProfilingFigures {
    private static final List<String> KINDS = List.of("matmul", "elementwise", "reduction", "softmax", "copy", "ours");

    /** The name in figures of the only kernel of this project in the profiles of the plain model. */
    private static final String ADAMW = "AdamW";

    private static final String OF_CASE = "profiling[year=2025, implementation=plain, ";

    /** The cases of the stored stacks and of the stored trace. */
    private static final String STACKS_CASE = "year=2024, size=xl, batch=16, context=128, dtype=fp32, pass=forward";

    private static final String TRACE_CASE = "year=2025, size=small, batch=4, context=128, dtype=fp32, pass=forward";

    private ProfilingFigures() {}

    /** A metric of a case divided by another one. */
    private record MetricRatio(ModelSize size, int context, String dtype, String pass, String metric, double value) {}

    /** A bar: the percentage of a kind of kernel in the time of all kernels. */
    private record KernelKindBar(String size, String kind, String panel, double percent) {}

    /** A point: the time of softmax divided by that of attention's GEMMs. */
    private record SoftmaxPoint(int context, String size, String dtype, double ratio) {}

    /**
     * Returns metrics divided by another one for all cases that have them, sorted by dtype (fp32 first), pass, size and
     * context.
     *
     * @param cases further filters
     * @param of the metric to divide by
     */
    private static List<MetricRatio> ratios(MeasurementQuery numbers, String cases, List<String> metrics, String of) {
        List<MetricRatio> ratios = new ArrayList<>();
        for (Row row : numbers.select(OF_CASE + cases + ", metric=" + String.join(", ", metrics) + "]")) {
            String whole = "size=%s, context=%d, dtype=%s, pass=%s, metric=%s]"
                    .formatted(
                            row.getString("size"),
                            row.getInt("context"),
                            row.getString("dtype"),
                            row.getString("pass"),
                            of);
            ratios.add(new MetricRatio(
                    ModelSize.parse(row.getString("size")),
                    row.getInt("context"),
                    row.getString("dtype"),
                    row.getString("pass"),
                    row.getString("metric"),
                    row.getDouble("mean") / numbers.quantity(OF_CASE + whole).value()));
        }
        ratios.sort(Comparator.comparing(MetricRatio::dtype)
                .reversed()
                .thenComparing(MetricRatio::pass)
                .thenComparing(MetricRatio::size)
                .thenComparing(MetricRatio::context)
                .thenComparing(ratio -> metrics.indexOf(ratio.metric)));
        return ratios;
    }

    /**
     * Plots the percentage of kernel time by kind of kernel and model size, in a forward pass and in a training step,
     * in fp32 and bf16; context 256.
     */
    public static Figure kinds(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var bars = new ArrayList<KernelKindBar>();
        List<String> metrics = KINDS.stream().map(name -> "total-" + name).toList();
        for (MetricRatio ratio :
                ratios(numbers, "context=256, dtype=fp32, bf16, pass=forward, step", metrics, "total-kernels")) {
            bars.add(new KernelKindBar(
                    ratio.size.label(),
                    KINDS.get(metrics.indexOf(ratio.metric)).replace("ours", ADAMW),
                    (ratio.pass.equals("step") ? "training step, " : "forward pass, ") + ratio.dtype,
                    100 * ratio.value));
        }
        return Charts.bar(Tables.of(KernelKindBar.class, bars))
                .x("size", "size of the model")
                .y("percent", "percentage of kernel time")
                .by("kind")
                .panels("panel")
                .size(960, 290)
                .origin(numbers.origin())
                .figure(
                        "profiling-kinds",
                        "Percentage of the time of all kernels that each kind of kernel takes, in a forward pass and in a training"
                                + " step of each size, context 256, in fp32 and in bf16");
    }

    /**
     * Plots the time of attention's softmax divided by that of its GEMMs in the forward pass, by context length and
     * model size, and the ratio of their FLOPs.
     */
    public static Figure softmax(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var points = new ArrayList<SoftmaxPoint>();
        String cases = "dtype=fp32, bf16, pass=forward";
        for (MetricRatio ratio :
                ratios(numbers, cases, List.of("forward-attention-softmax"), "forward-attention-matmul")) {
            points.add(new SoftmaxPoint(ratio.context, ratio.size.label(), ratio.dtype, ratio.value));
        }
        MetricRatio operations = ratios(
                        numbers, cases + ", size=small", List.of("attention-softmax-flop"), "attention-matmul-flop")
                .get(0);
        return Charts.line(Tables.of(SoftmaxPoint.class, points))
                .x("context", "context (tokens)")
                .y("ratio", "time of softmax ÷ GEMMs")
                .by("size")
                .panels("dtype")
                .level(operations.value, "FLOP ratio, d = 64")
                .log2X()
                .logY()
                .size(960, 290)
                .origin(numbers.origin())
                .figure(
                        "profiling-softmax",
                        "Softmax over the matrix multiplications inside attention over the context: ratio of their times for each"
                                + " size in fp32 and in bf16, and ratio of their operations, forward pass");
    }

    /**
     * Plots the flame graph of GPU time in a forward pass of the 2024 xl model, from its stored stacks.
     *
     * @throws IOException if the stacks cannot be read
     */
    public static FlameGraph flameGraph(MeasurementQuery measurements) throws IOException {
        return FlameGraph.of(stacks(measurements))
                .title("Forward pass of the 2024 xl model, batch 16, context 128, fp32: GPU time")
                .origin(origin(measurements, STACKS_CASE));
    }

    /**
     * Plots the flame graph of one layer of that pass.
     *
     * @param layer name of the layer, such as {@code layers.3}
     * @throws IOException if the stacks cannot be read
     */
    public static Figure layer(MeasurementQuery measurements, String layer) throws IOException {
        List<FoldedStacks.Stack> inside = stacks(measurements).stacks().stream()
                .filter(stack -> stack.frames().contains(layer))
                .map(stack -> new FoldedStacks.Stack(
                        stack.frames()
                                .subList(
                                        stack.frames().indexOf(layer),
                                        stack.frames().size()),
                        stack.value()))
                .toList();
        if (inside.isEmpty()) {
            throw new IllegalArgumentException("layer: the stored stacks have no layer " + layer);
        }
        return FlameGraph.of(FoldedStacks.of(inside))
                .title("One of its layers")
                .origin(origin(measurements, STACKS_CASE))
                .figure(
                        "profiling-flame-graph-layer",
                        "Flame graph of one layer of a forward pass of the 2024 xl model, batch 16, context 128, fp32: GPU time");
    }

    private static FoldedStacks stacks(MeasurementQuery measurements) throws IOException {
        return FoldedStacks.read(measurements
                .folder()
                .resolve("profiling/2024-xl-128-fp32-forward")
                .resolve(ProfileWorkload.STACKS));
    }

    /**
     * Plots the timeline of host and GPU in one layer of a forward pass of the small model, from its stored trace.
     *
     * @throws IOException if the trace cannot be read
     */
    public static Figure timeline(MeasurementQuery measurements) throws IOException {
        Path trace = measurements
                .folder()
                .resolve("profiling/small-128-fp32-forward")
                .resolve(ProfileWorkload.TRACE);
        return Timeline.of(Trace.read(trace))
                .during("layers.1", -1)
                .figure(
                        "profiling-timeline",
                        "Ranges of the host and kernels of the GPU in one layer of a forward pass of the small model, context"
                                + " 128, fp32")
                .withOrigin(origin(measurements, TRACE_CASE));
    }

    /** Returns the machine and commit of a profile, which the rows of its case name. */
    private static String origin(MeasurementQuery measurements, String profiled) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        numbers.select("profiling[implementation=plain, " + profiled + ", metric=profiled]");
        return numbers.origin();
    }
}
