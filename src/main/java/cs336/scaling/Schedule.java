package cs336.scaling;

import cs336.units.Seconds;
import java.util.Comparator;
import java.util.List;

/**
 * When everything ran.
 *
 * @param spans one a task, in the order in which tasks were made
 * @param finish when the last one was done
 */
public record Schedule(List<Span> spans, Seconds finish) {
    /**
     * A task that ran.
     *
     * @param task its name
     * @param resource where
     * @param start when
     * @param end when it left the resource
     */
    public record Span(String task, String resource, Seconds start, Seconds end) {
        public Seconds length() {
            return new Seconds(Math.max(0, end.value() - start.value()));
        }
    }

    public Schedule {
        spans = List.copyOf(spans);
    }

    /** The tasks of one resource, in the order in which they ran. */
    public List<Span> on(String resource) {
        return spans.stream()
                .filter(span -> span.resource.equals(resource))
                .sorted(Comparator.comparing(Span::start))
                .toList();
    }

    /** How long a resource worked. */
    public Seconds busy(String resource) {
        return new Seconds(
                on(resource).stream().mapToDouble(span -> span.length().value()).sum());
    }

    /** How long a resource worked while another one did not. */
    public Seconds exposed(String resource, String behind) {
        double hidden = 0;
        List<Span> others = on(behind);
        for (Span span : on(resource)) {
            for (Span other : others) {
                double from = Math.max(span.start.value(), other.start.value());
                double to = Math.min(span.end.value(), other.end.value());
                hidden += Math.max(0, to - from);
            }
        }
        return new Seconds(Math.max(0, busy(resource).value() - hidden));
    }
}
