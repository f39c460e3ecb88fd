package cs336.figures;

import cs336.charts.Figure;
import cs336.numbers.MeasurementQuery;
import cs336.profile.DeviceEvent;
import cs336.profile.Timeline;
import cs336.profile.Trace;
import java.io.IOException;
import java.util.List;

/** The figures of the chapter on fully sharded data parallelism, from a trace of {@code cs336 fsdp --trace}. */
public final class FsdpFigures {
    private static final String ATTENTION_BACKWARD = "flash_hopper_backward";

    private FsdpFigures() {}

    /**
     * Plots the timeline of a training step of the 8B model on one rank, from its stored trace.
     *
     * @throws IOException if the trace cannot be read
     */
    public static Figure step(MeasurementQuery measurements) throws IOException {
        return Timeline.of(trace(measurements))
                .lastStep()
                .levels(1)
                .figure(
                        "fsdp-8b-step",
                        "Kernels, copies and collectives of one GPU during a training step of the 8B model on two GPUs")
                .withOrigin(origin(measurements));
    }

    /**
     * Plots the backward pass of one block in the middle of the model: from the beginning of its attention to that of
     * the block before.
     *
     * @throws IOException if the trace cannot be read
     */
    public static Figure block(MeasurementQuery measurements) throws IOException {
        Trace step = trace(measurements);
        List<DeviceEvent> attention = step.work().stream()
                .filter(event -> event.name().equals(ATTENTION_BACKWARD))
                .toList();
        int middle = attention.size() / 2;
        return Timeline.of(step)
                .between(
                        attention.get(middle - 1).start(), attention.get(middle).start())
                .levels(1)
                .figure(
                        "fsdp-8b-block",
                        "Kernels, copies and collectives of one GPU during the backward pass of one block of the 8B model")
                .withOrigin(origin(measurements));
    }

    private static Trace trace(MeasurementQuery measurements) throws IOException {
        return Trace.read(measurements.folder().resolve("fsdp/8b-rank0.json.gz"));
    }

    /** Returns the machine and commit of the trace, which the rows about its overlap name. */
    private static String origin(MeasurementQuery measurements) {
        MeasurementQuery numbers = measurements.withOwnOrigin();
        numbers.select("fsdp_accounting_overlap[size=d4096-ff11008-l34-h32-v151936, mode=fsdp, metric=communication]");
        return numbers.origin();
    }
}
