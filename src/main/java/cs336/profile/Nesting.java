package cs336.profile;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The computation of the parent and the self time of a thread's events.
 *
 * <p>The parent of an event is the nearest event that started before it and does not end before it. At any time the
 * running event that started last owns the time. Self times therefore sum to the time in which the thread did anything,
 * even if events overlap without nesting.
 */
final class Nesting {
    /**
     * Sorts outer events before inner ones. Sorting is stable, so of otherwise equal events the first in the trace is
     * the outer one.
     */
    static final Comparator<HostEvent> ORDER = Comparator.comparing(HostEvent::thread)
            .thenComparingLong(HostEvent::start)
            .thenComparing(Comparator.comparingLong(HostEvent::duration).reversed())
            .thenComparing(HostEvent::kind);

    private final List<HostEvent> open = new ArrayList<>(); // outermost first
    private long now;

    private Nesting() {}

    /** Sets {@code parent} and {@code self} of events that are in {@link #ORDER}. */
    static void resolve(List<HostEvent> events) {
        var nesting = new Nesting();
        HostThread thread = null;
        for (HostEvent event : events) {
            if (!event.thread().equals(thread)) {
                nesting.advance(Long.MAX_VALUE);
                thread = event.thread();
                nesting.now = event.start();
            }
            nesting.advance(event.start());
            event.parent = nesting.around(event);
            nesting.open.add(event);
        }
        nesting.advance(Long.MAX_VALUE);
    }

    /** Advances to a time: adds the elapsed time to the self times of its owners and removes events that have ended. */
    private void advance(long time) {
        while (!open.isEmpty()) {
            HostEvent last = open.get(open.size() - 1);
            long until = Math.min(last.end(), time);
            if (until > now) {
                last.self += until - now;
                now = until;
            }
            // An event without duration may still contain others that start at the same time.
            boolean ended = last.end() < time || last.end() == time && last.duration() > 0;
            if (!ended) {
                break;
            }
            open.remove(open.size() - 1);
        }
        now = Math.max(now, time);
    }

    private HostEvent around(HostEvent event) {
        for (int i = open.size() - 1; i >= 0; i--) {
            if (open.get(i).end() >= event.end()) {
                return open.get(i);
            }
        }
        return null;
    }
}
