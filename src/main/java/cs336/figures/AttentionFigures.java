package cs336.figures;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.scaling.AttentionMemory;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.List;
import tech.tablesaw.api.DoubleColumn;
import tech.tablesaw.api.IntColumn;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** The figures of the chapter on plain attention, from its accounting and from what {@code cs336 attention} stored. */
public final class AttentionFigures {
    private static final double GB = 1e9;
    private static final int BATCH = 8;

    private AttentionFigures() {}

    /**
     * What a training step of attention without heads holds over the context: plain attention at its peak and between
     * the passes, and what is left between the passes where no scores are stored. Batch 8, d 64, fp32, no mask.
     */
    public static Figure memory() {
        int d = 64;
        IntColumn contexts = IntColumn.create("context");
        DoubleColumn gb = DoubleColumn.create("GB");
        StringColumn what = StringColumn.create("what");
        for (int context = 256; context <= 65_536; context *= 2) {
            var plain = new AttentionMemory(BATCH, context, d, DType.FLOAT32, false, DeviceKind.CUDA);
            long output = plain.inputBytes() / 4;
            long logSumExp = (long) BATCH * context * Float.BYTES;
            double[] bytes = {plain.peakBytes(), plain.beforeBackward().bytes(), plain.inputBytes() + output + logSumExp
            };
            String[] names = {"peak", "before backward", "before backward, no scores stored"};
            for (int i = 0; i < bytes.length; i++) {
                contexts.append(context);
                gb.append(bytes[i] / GB);
                what.append(names[i]);
            }
        }
        return Charts.line(Table.create(contexts, gb, what))
                .x("context", "context (tokens)")
                .y("GB", "memory (GB)")
                .by("what")
                .level(24, "24 GB")
                .level(141, "141 GB")
                .log2X()
                .logY()
                .size(720, 380)
                .figure(
                        "attention-memory",
                        "Memory of a training step of attention over the context, batch 8, d 64, fp32: the peak and what is"
                                + " held before the backward pass with all scores stored, and what is held without them");
    }

    /** Time of the passes of plain attention over the context, a line for each d. */
    public static Figure times(MeasurementQuery numbers) {
        return Charts.line(numbers.select(
                        "pytorch_attention[implementation=plain, causal=false, status=ok, metric=forward, backward]"))
                .x("context", "context (tokens)")
                .y("mean", "time (ms)")
                .error("std")
                .by("d")
                .rename("16", "d 16")
                .rename("32", "d 32")
                .rename("64", "d 64")
                .rename("128", "d 128")
                .panels("metric")
                .log2X()
                .logY()
                .size(760, 340)
                .figure(
                        "attention-times",
                        "Time of forward and backward pass of plain attention over the context, a line for each width d,"
                                + " batch 8, fp32");
    }

    /** Measured and counted memory of plain attention over the context, for one d, at three moments. */
    public static Figure countedAndMeasured(MeasurementQuery numbers, int d) {
        IntColumn contexts = IntColumn.create("context");
        DoubleColumn gb = DoubleColumn.create("GB");
        StringColumn how = StringColumn.create("how");
        StringColumn moments = StringColumn.create("moment");
        String[] metrics = {"peak-memory-forward", "memory-before-backward", "peak-memory-backward"};
        for (Row row : numbers.select("pytorch_attention[implementation=plain, causal=false, status=ok, d=" + d
                + ", metric=" + String.join(", ", metrics) + "]")) {
            int context = row.getInt("context");
            var memory = new AttentionMemory(row.getInt("batch"), context, d, DType.FLOAT32, false, DeviceKind.CUDA);
            double atRest = numbers.quantity(
                            "pytorch_attention[implementation=plain, causal=false, d=%s, context=%s, metric=memory-at-rest].mean"
                                    .formatted(d, context))
                    .value();
            List<AttentionMemory.Moment> counted =
                    List.of(memory.peakOfForward(), memory.beforeBackward(), memory.peakOfBackward());
            int moment = List.of(metrics).indexOf(row.getString("metric"));
            double[] bytes = {atRest - memory.inputBytes() + counted.get(moment).bytes(), row.getDouble("mean")};
            String[] names = {"counted", "measured"};
            for (int i = 0; i < bytes.length; i++) {
                contexts.append(context);
                gb.append(bytes[i] / GB);
                how.append(names[i]);
                moments.append(metrics[moment]);
            }
        }
        return Charts.line(Table.create(contexts, gb, how, moments))
                .x("context", "context (tokens)")
                .y("GB", "memory (GB)")
                .by("how")
                .panels("moment")
                .rename("peak-memory-forward", "peak of forward")
                .rename("memory-before-backward", "before backward")
                .rename("peak-memory-backward", "peak of backward")
                .log2X()
                .logY()
                .size(960, 340)
                .figure(
                        "attention-counted-and-measured",
                        "Memory of plain attention over the context as counted copy by copy and as measured, at the peak of"
                                + " the forward pass, before the backward pass and at its peak");
    }
}
