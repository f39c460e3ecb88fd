package cs336.figures;

import cs336.charts.Figure;
import cs336.profile.DeviceEvent;
import cs336.profile.Timeline;
import cs336.profile.Trace;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/** The figures of the chapter on fully sharded data parallelism, from a trace of {@code cs336 fsdp --trace}. */
public final class FsdpFigures {
    private static final String ATTENTION_BACKWARD = "flash_hopper_backward";

    private FsdpFigures() {}

    /**
     * Plots the timeline of a training step of the 8B model on one rank.
     *
     * @param trace trace of one step
     * @throws IOException if it cannot be read
     */
    public static Figure step(Path trace) throws IOException {
        return Timeline.of(Trace.read(trace))
                .lastStep()
                .levels(1)
                .figure(
                        "fsdp-8b-step",
                        "Kernels, copies and collectives of one GPU during a training step of the 8B model on two GPUs");
    }

    /**
     * Plots the backward pass of one block in the middle of the model: from the beginning of its attention to that of
     * the block before.
     *
     * @param trace trace of one step
     * @throws IOException if it cannot be read
     */
    public static Figure block(Path trace) throws IOException {
        Trace step = Trace.read(trace);
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
                        "Kernels, copies and collectives of one GPU during the backward pass of one block of the 8B model");
    }
}
