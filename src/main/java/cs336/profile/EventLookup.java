package cs336.profile;

import java.util.List;

/** A lookup of the event that a thread was executing at a given time. */
final class EventLookup {
    private EventLookup() {}

    /**
     * Returns the innermost event at a time, or null.
     *
     * @param events events of one thread in {@link Nesting#ORDER}
     */
    static HostEvent innermost(List<HostEvent> events, long time) {
        int low = 0;
        int high = events.size();
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (events.get(middle).start() <= time) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        HostEvent event = low == 0 ? null : events.get(low - 1);
        while (event != null && event.end() < time) {
            event = event.parent;
        }
        return event;
    }
}
