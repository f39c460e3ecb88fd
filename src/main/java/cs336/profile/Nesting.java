package cs336.profile;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * Finds out which events of a thread are inside which, and which time belongs to each alone.
 *
 * <p>An event is inside the nearest one that began before it and ends no earlier than it does. Time belongs to the
 * event that began last of those still running. So the self times of a thread add up to the time in which it did
 * anything, also where events overlap without nesting.
 */
final class Nesting {
    /**
     * Outer events before inner ones. Sorting is stable: with all else equal, the one that the trace names first is
     * outside.
     */
    static final Comparator<HostEvent> ORDER = Comparator.comparing(HostEvent::thread)
            .thenComparingLong(HostEvent::start)
            .thenComparing(Comparator.comparingLong(HostEvent::duration).reversed())
            .thenComparing(HostEvent::kind);

    private final List<HostEvent> open = new ArrayList<>(); // outermost first
    private long now;

    private Nesting() {}

    /** Fills in parents and self times of events that are in {@link #ORDER}. */
    static void resolve(List<HostEvent> events) {
        Nesting nesting = new Nesting();
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

    /** Gives the time up to this moment to those whose it is, and drops those that are over. */
    private void advance(long time) {
        while (!open.isEmpty()) {
            HostEvent last = open.get(open.size() - 1);
            long until = Math.min(last.end(), time);
            if (until > now) {
                last.self += until - now;
                now = until;
            }
            // An event without duration is still around others of the same moment.
            boolean over = last.end() < time || last.end() == time && last.duration() > 0;
            if (!over) break;
            open.remove(open.size() - 1);
        }
        now = Math.max(now, time);
    }

    private HostEvent around(HostEvent event) {
        for (int i = open.size() - 1; i >= 0; i--) {
            if (open.get(i).end() >= event.end()) return open.get(i);
        }
        return null;
    }
}
