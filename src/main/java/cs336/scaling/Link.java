package cs336.scaling;

import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;

/**
 * A way from one device to the next.
 *
 * @param name of its class
 * @param latency until the first byte of a message arrives
 * @param bandwidth that a device sends with, and receives with at the same time
 */
public record Link(String name, Seconds latency, Bandwidth bandwidth) {
    /** How long a message holds the link; it arrives a latency later. */
    public Seconds holds(Bytes message) {
        return message.over(bandwidth);
    }

    /** The same link with another bandwidth. */
    public Link withBandwidth(Bandwidth other) {
        return new Link(name, latency, other);
    }
}
