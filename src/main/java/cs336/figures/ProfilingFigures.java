package cs336.figures;

import cs336.basics.ModelSize;
import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.profile.FlameGraph;
import cs336.profile.FoldedStacks;
import cs336.profile.Timeline;
import cs336.profile.Trace;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** The figures of the chapter on profiling, from what {@code cs336 profile} stored. */
public final class ProfilingFigures {
    private static final List<String> KINDS = List.of("matmul", "elementwise", "reduction", "softmax", "copy");
    private static final String OF_CASE = "profiling[year=2025, implementation=plain, ";

    private ProfilingFigures() {}

    /** What one metric of a case is of another. */
    private record Share(ModelSize size, int context, String dtype, String pass, String metric, double value) {}

    /**
     * What metrics are of another one in all cases that have them, fp32 first, then by pass, size and context.
     *
     * @param cases further filters
     */
    private static List<Share> shares(MeasurementQuery numbers, String cases, List<String> metrics, String of) {
        List<Share> shares = new ArrayList<>();
        for (Row row : numbers.select(OF_CASE + cases + ", metric=" + String.join(", ", metrics) + "]")) {
            String whole = "size=%s, context=%d, dtype=%s, pass=%s, metric=%s]"
                    .formatted(
                            row.getString("size"),
                            row.getInt("context"),
                            row.getString("dtype"),
                            row.getString("pass"),
                            of);
            shares.add(new Share(
                    ModelSize.parse(row.getString("size")),
                    row.getInt("context"),
                    row.getString("dtype"),
                    row.getString("pass"),
                    row.getString("metric"),
                    row.getDouble("mean") / numbers.quantity(OF_CASE + whole).value()));
        }
        shares.sort(Comparator.comparing(Share::dtype)
                .reversed()
                .thenComparing(Share::pass)
                .thenComparing(Share::size)
                .thenComparing(Share::context)
                .thenComparing(share -> metrics.indexOf(share.metric)));
        return shares;
    }

    /**
     * Share of the kernels' time by kind, in a forward pass and in a whole training step, in fp32 and bf16, a group a
     * size; context 256.
     */
    public static Figure kinds(MeasurementQuery numbers) {
        StringColumn size = StringColumn.create("size");
        StringColumn kind = StringColumn.create("kind");
        StringColumn panel = StringColumn.create("panel");
        DoubleColumn percent = DoubleColumn.create("percent");
        List<String> metrics = KINDS.stream().map(name -> "total-" + name).toList();
        for (Share share :
                shares(numbers, "context=256, dtype=fp32, bf16, pass=forward, step", metrics, "total-kernels")) {
            size.append(share.size.label());
            kind.append(KINDS.get(metrics.indexOf(share.metric)));
            panel.append((share.pass.equals("step") ? "training step, " : "forward pass, ") + share.dtype);
            percent.append(100 * share.value);
        }
        return Charts.bar(Table.create(size, kind, panel, percent))
                .x("size", "size of the model")
                .y("percent", "share of the kernels' time (%)")
                .by("kind")
                .panels("panel")
                .size(960, 340)
                .figure(
                        "profiling-kinds",
                        "Share of the time of all kernels that each kind of kernel takes, in a forward pass and in a training"
                                + " step of each size, context 256, in fp32 and in bf16");
    }

    /**
     * Softmax over the products of attention in the forward pass, over the context: their times for each size, and
     * their operations.
     */
    public static Figure softmax(MeasurementQuery numbers) {
        IntColumn context = IntColumn.create("context");
        StringColumn size = StringColumn.create("size");
        StringColumn dtype = StringColumn.create("dtype");
        DoubleColumn ratio = DoubleColumn.create("ratio");
        String cases = "dtype=fp32, bf16, pass=forward";
        for (Share share : shares(numbers, cases, List.of("forward-attention-softmax"), "forward-attention-matmul")) {
            context.append(share.context);
            size.append(share.size.label());
            dtype.append(share.dtype);
            ratio.append(share.value);
        }
        Share operations = shares(
                        numbers, cases + ", size=small", List.of("attention-softmax-flop"), "attention-matmul-flop")
                .get(0);
        return Charts.line(Table.create(context, size, dtype, ratio))
                .x("context", "context (tokens)")
                .y("ratio", "softmax ÷ products")
                .by("size")
                .panels("dtype")
                .level(operations.value, "operations, d = 64")
                .log2X()
                .logY()
                .size(960, 340)
                .figure(
                        "profiling-softmax",
                        "Softmax over the matrix products inside attention over the context: ratio of their times for each"
                                + " size in fp32 and in bf16, and ratio of their operations, forward pass");
    }

    /**
     * Where the time of the card goes in a forward pass of the xl model, to be explored.
     *
     * @param stacks as the profile of that pass left them
     * @throws IOException if they cannot be read
     */
    public static FlameGraph flameGraph(Path stacks) throws IOException {
        return FlameGraph.of(FoldedStacks.read(stacks))
                .title("Forward pass of the xl model, context 256, fp32: time of the card");
    }

    /**
     * One layer of that pass.
     *
     * @param stacks as the profile of the pass left them
     * @param layer its name, such as {@code layers.3}
     * @throws IOException if they cannot be read
     */
    public static Figure layer(Path stacks, String layer) throws IOException {
        List<FoldedStacks.Stack> inside = FoldedStacks.read(stacks).stacks().stream()
                .filter(stack -> stack.frames().contains(layer))
                .map(stack -> new FoldedStacks.Stack(
                        stack.frames()
                                .subList(
                                        stack.frames().indexOf(layer),
                                        stack.frames().size()),
                        stack.value()))
                .toList();
        return FlameGraph.of(FoldedStacks.of(inside))
                .title("One of its layers")
                .figure(
                        "profiling-flame-graph-layer",
                        "Flame graph of one layer of a forward pass of the xl model, context 256, fp32: time of the card");
    }

    /**
     * Who works when in one layer of a forward pass of the small model.
     *
     * @param trace as the profile of that pass left it
     * @throws IOException if it cannot be read
     */
    public static Figure timeline(Path trace) throws IOException {
        return Timeline.of(Trace.read(trace))
                .during("layers.1", -1)
                .figure(
                        "profiling-timeline",
                        "Ranges of the host and kernels of the card in one layer of a forward pass of the small model, context"
                                + " 128, fp32");
    }
}
