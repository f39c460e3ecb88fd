package cs336.figures;

import static cs336.units.UnitFactors.GB;

import cs336.charts.Charts;
import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.scaling.memory.AttentionMemory;
import cs336.scaling.memory.MemoryInventory;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.util.ArrayList;
import java.util.List;
import tech.tablesaw.api.Row;

/** The figures of the chapter on plain attention: predicted memory, and measurements of {@code cs336 attention}. */
public final class AttentionFigures {
    private static final int BATCH = 8;

    private AttentionFigures() {}

    /** A point of a memory chart: a context length, a series, the panel and the memory. */
    private record AttentionMemoryPoint(int context, String series, String panel, double gb) {}

    /**
     * Plots the predicted memory of a training step of single-head attention by context length: plain attention at its
     * peak and before the backward pass, and attention that stores no scores before the backward pass. Batch 8, d 64,
     * fp32, no mask.
     */
    public static Figure memory() {
        int d = 64;
        var points = new ArrayList<AttentionMemoryPoint>();
        for (int context = 256; context <= 65_536; context *= 2) {
            var plain = new AttentionMemory(BATCH, context, d, DType.FLOAT32, false, DeviceKind.CUDA);
            long output = plain.inputBytes() / 4;
            long logSumExp = (long) BATCH * context * Float.BYTES;
            double flash = plain.inputBytes() + output + logSumExp;
            points.add(new AttentionMemoryPoint(context, "peak", "", plain.peakBytes() / GB));
            points.add(new AttentionMemoryPoint(
                    context, "before backward", "", plain.beforeBackward().bytes() / GB));
            points.add(new AttentionMemoryPoint(context, "before backward, no scores stored", "", flash / GB));
        }
        return Charts.line(Tables.of(AttentionMemoryPoint.class, points))
                .x("context", "context (tokens)")
                .y("gb", "memory (GB)")
                .by("series")
                .level(24, "24 GB")
                .level(150, "150 GB")
                .log2X()
                .logY()
                .size(720, 380)
                .figure(
                        "attention-memory",
                        "Memory of a training step of attention over the context, batch 8, d 64, fp32: the peak and what is"
                                + " held before the backward pass with all scores stored, and what is held without them");
    }

    /** Plots the times of forward and backward pass of plain attention by context length, one line per d. */
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
                        "Time of forward and backward pass of plain attention over the context, one line per width d,"
                                + " batch 8, fp32");
    }

    /** Plots the predicted and measured memory of plain attention by context length at three points of the step. */
    public static Figure countedAndMeasured(MeasurementQuery measurements, int d) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        var points = new ArrayList<AttentionMemoryPoint>();
        String[] metrics = {"peak-memory-forward", "memory-before-backward", "peak-memory-backward"};
        for (Row row : numbers.select("pytorch_attention[implementation=plain, causal=false, status=ok, d=" + d
                + ", metric=" + String.join(", ", metrics) + "]")) {
            int context = row.getInt("context");
            var memory = new AttentionMemory(row.getInt("batch"), context, d, DType.FLOAT32, false, DeviceKind.CUDA);
            double atRest = numbers.quantity(
                            "pytorch_attention[implementation=plain, causal=false, d=%s, context=%s, metric=memory-at-rest].mean"
                                    .formatted(d, context))
                    .value();
            List<MemoryInventory> counted =
                    List.of(memory.peakOfForward(), memory.beforeBackward(), memory.peakOfBackward());
            int point = List.of(metrics).indexOf(row.getString("metric"));
            double predicted = atRest - memory.inputBytes() + counted.get(point).bytes();
            points.add(new AttentionMemoryPoint(context, "predicted", metrics[point], predicted / GB));
            points.add(new AttentionMemoryPoint(context, "measured", metrics[point], row.getDouble("mean") / GB));
        }
        return Charts.line(Tables.of(AttentionMemoryPoint.class, points))
                .x("context", "context (tokens)")
                .y("gb", "memory (GB)")
                .by("series")
                .panels("panel")
                .rename("peak-memory-forward", "peak of forward")
                .rename("memory-before-backward", "before backward")
                .rename("peak-memory-backward", "peak of backward")
                .log2X()
                .logY()
                .size(960, 290)
                .origin(numbers.origin())
                .figure(
                        "attention-counted-and-measured",
                        "Memory of plain attention over the context as predicted tensor by tensor and as measured, at the peak of"
                                + " the forward pass, before the backward pass and at its peak");
    }
}
