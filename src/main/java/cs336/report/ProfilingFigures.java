package cs336.report;

import cs336.profile.FoldedStacks;
import cs336.profile.Trace;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** The figures of the chapter on profiling, from what {@code cs336 profile} stored. */
public final class ProfilingFigures {
    private static final String KINDS = "matmul, elementwise, reduction, softmax, copy";

    private ProfilingFigures() {}

    /** Share of the kernels' time by kind, in a forward pass and in a whole training step, a group a size; context 256, fp32. */
    public static Figure kinds(Numbers numbers) {
        StringColumn size = StringColumn.create("size");
        StringColumn kind = StringColumn.create("kind");
        StringColumn pass = StringColumn.create("pass");
        DoubleColumn share = DoubleColumn.create("share");
        String all = "profiling[year=2025, implementation=plain, context=256, dtype=fp32, pass=forward, step, metric=";
        for (Row row : numbers.select(all + "total-" + KINDS.replace(", ", ", total-") + "]")) {
            double total = numbers.quantity(
                            "profiling[year=2025, implementation=plain, context=256, dtype=fp32, size=%s, pass=%s, metric=total-kernels]"
                                    .formatted(row.getString("size"), row.getString("pass")))
                    .value();
            size.append(row.getString("size"));
            pass.append(row.getString("pass").equals("step") ? "training step" : "forward pass");
            kind.append(row.getString("metric").replace("total-", ""));
            share.append(100 * row.getDouble("mean") / total);
        }
        return Charts.bar(Table.create(size, kind, pass, share))
                .x("size", "size of the model")
                .y("share", "share of the kernels' time (%)")
                .by("kind")
                .panels("pass")
                .size(960, 340)
                .figure(
                        "profiling-kinds",
                        "Share of the time of all kernels that each kind of kernel takes, in a forward pass and in a training"
                                + " step of each size, context 256, fp32");
    }

    /** Softmax over the products of attention in the forward pass: their times and their operations, over the context. */
    public static Figure softmax(Numbers numbers) {
        IntColumn context = IntColumn.create("context");
        StringColumn what = StringColumn.create("what");
        DoubleColumn ratio = DoubleColumn.create("ratio");
        for (Row row :
                numbers.select("profiling[year=2025, implementation=plain, dtype=fp32, pass=forward, size=small, xl,"
                        + " metric=forward-attention-softmax]")) {
            String point =
                    "profiling[year=2025, implementation=plain, dtype=fp32, pass=forward, size=%s, context=%s, metric="
                            .formatted(row.getString("size"), row.getInt("context"));
            context.append(row.getInt("context"));
            what.append("time, " + row.getString("size"));
            ratio.append(row.getDouble("mean")
                    / numbers.quantity(point + "forward-attention-matmul]").value());
            if (row.getString("size").equals("xl")) {
                context.append(row.getInt("context"));
                what.append("operations");
                ratio.append(numbers.quantity(point + "attention-softmax-flop]").value()
                        / numbers.quantity(point + "attention-matmul-flop]").value());
            }
        }
        return Charts.line(Table.create(context, what, ratio))
                .x("context", "context (tokens)")
                .y("ratio", "softmax ÷ products")
                .by("what")
                .log2X()
                .logY()
                .size(640, 340)
                .figure(
                        "profiling-softmax",
                        "Softmax over the matrix products inside attention over the context: ratio of their times for two"
                                + " sizes, and ratio of their operations, forward pass in fp32");
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
