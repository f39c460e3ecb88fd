package cs336.scaling;

import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.Seconds;

/**
 * A link from one device to another.
 *
 * @param name name of the class of links, such as NVLink
 * @param ringLatency time from sending a byte to its arrival, in a ring
 * @param treeLatency the same in a tree
 * @param bandwidth bandwidth in each direction
 */
public record Link(String name, Seconds ringLatency, Seconds treeLatency, Bandwidth bandwidth) {
    /** Creates a link whose latency is the same in rings and trees. */
    public Link(String name, Seconds latency, Bandwidth bandwidth) {
        this(name, latency, latency, bandwidth);
    }

    /** Returns the time for which a message occupies the link; the message arrives one latency later. */
    public Seconds holds(Bytes message) {
        return message.over(bandwidth);
    }

    /** Returns the link with another bandwidth. */
    public Link withBandwidth(Bandwidth other) {
        return new Link(name, ringLatency, treeLatency, other);
    }
}
