package cs336.bench;

import java.util.List;
import java.util.stream.Stream;

/**
 * The times of one phase in each step, in milliseconds.
 *
 * @param wall wall times, which are the times to report
 * @param events times between two CUDA events in the current stream, under the metric's name with the suffix
 *     {@code -events}; null on the CPU and without synchronization. They are slightly shorter than the wall times,
 *     because they do not include the synchronization
 */
public record Timing(Samples wall, Samples events) {
    /** Returns the wall times, followed by the event times if there are any. */
    public List<Samples> samples() {
        return Stream.of(wall, events).filter(s -> s != null).toList();
    }

    /** Returns the statistics of the wall times. */
    public Summary summary() {
        return wall.summary();
    }
}
