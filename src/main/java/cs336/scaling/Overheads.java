package cs336.scaling;

import cs336.units.Bandwidth;
import cs336.units.Seconds;

/**
 * What a step loses beside the time of its collectives.
 *
 * @param eachCollective added to each collective in a row of them, beside {@link Cluster#time}
 * @param copy how fast gradients are copied into the buffers in which they are sent; those that are sent one by one are
 *     not
 * @param start what computing waits for each collective that is started while it goes on: the host, or what the host
 *     holds meanwhile
 * @param slowdown share of its speed that computing loses while something is sent
 */
public record Overheads(Seconds eachCollective, Bandwidth copy, Seconds start, double slowdown) {
    /** Nothing is lost. */
    public static final Overheads NONE =
            new Overheads(Seconds.ZERO, new Bandwidth(Double.POSITIVE_INFINITY), Seconds.ZERO, 0);

    public Overheads {
        if (!(slowdown >= 0 && slowdown < 1)) {
            throw new IllegalArgumentException("slowdown must be at least 0 and below 1, not " + slowdown);
        }
    }
}
