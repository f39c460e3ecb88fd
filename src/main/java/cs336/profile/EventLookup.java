package cs336.profile;

import java.util.List;

/** Finds what a thread was in at a moment. */
final class EventLookup {
    private EventLookup() {}

    /**
     * The innermost of these events, which are in {@link Nesting#ORDER} and of one thread, that runs at this time, or
     * null.
     */
    static HostEvent innermost(List<HostEvent> events, long time) {
        int low = 0;
        int high = events.size();
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (events.get(middle).start() <= time) low = middle + 1;
            else high = middle;
        }
        HostEvent event = low == 0 ? null : events.get(low - 1);
        while (event != null && event.end() < time) event = event.parent;
        return event;
    }
}
