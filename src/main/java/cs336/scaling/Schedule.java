package cs336.scaling;

import cs336.units.Seconds;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;

/**
 * The result of a {@link Simulation}.
 *
 * @param spans one span for each task, in the order in which the tasks were created
 * @param finish end of the last task
 */
public record Schedule(List<Span> spans, Seconds finish) {
    /**
     * The time in which a task ran.
     *
     * @param task name of the task
     * @param resource name of the resource
     * @param start time at which the task occupied the resource
     * @param end time at which the task released the resource
     */
    public record Span(String task, String resource, Seconds start, Seconds end) {
        /** Returns the time between start and end. */
        public Seconds length() {
            return new Seconds(Math.max(0, end.value() - start.value()));
        }
    }

    public Schedule {
        Objects.requireNonNull(spans, "spans must not be null");
        spans = List.copyOf(spans);
    }

    /** Returns the tasks of one resource in the order in which they ran. */
    public List<Span> on(String resource) {
        return spans.stream()
                .filter(span -> span.resource.equals(resource))
                .sorted(Comparator.comparing(Span::start))
                .toList();
    }

    /** Returns the time in which a resource was in use. */
    public Seconds busy(String resource) {
        return new Seconds(
                on(resource).stream().mapToDouble(span -> span.length().value()).sum());
    }
}
