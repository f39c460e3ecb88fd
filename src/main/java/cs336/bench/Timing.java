package cs336.bench;

import java.util.List;
import java.util.stream.Stream;

/**
 * The times of one phase, step by step, in milliseconds.
 *
 * @param wall by the wall clock: the number to report
 * @param events by the card's own clock, between two events in its stream, under the metric's name with {@code -events}
 *     added; null on the CPU, and where steps were not waited for. Without the host's waiting for the card, so a little
 *     below the wall clock; far below it means that the card stood idle between steps
 */
public record Timing(Samples wall, Samples events) {
    /** Wall-clock times, then event times where there are any. */
    public List<Samples> samples() {
        return Stream.of(wall, events).filter(s -> s != null).toList();
    }

    /** Number, mean, spread and extremes of the wall-clock times. */
    public Summary summary() {
        return wall.summary();
    }
}
