package cs336.scaling;

import cs336.units.Bandwidth;
import cs336.units.Seconds;

/**
 * Costs of communication in a training step in addition to {@link Cluster#time}.
 *
 * @param eachCollective fixed time of each of several consecutive collectives
 * @param copy bandwidth at which gradients are copied into the buffers that are sent; gradients that are sent
 *     individually are not copied
 * @param start time that the backward pass waits for the start of each collective that overlaps with it
 * @param slowdown fraction by which the speed of computation falls during a collective
 */
public record Overheads(Seconds eachCollective, Bandwidth copy, Seconds start, double slowdown) {
    /** No overheads. */
    public static final Overheads NONE =
            new Overheads(Seconds.ZERO, new Bandwidth(Double.POSITIVE_INFINITY), Seconds.ZERO, 0);

    /** @throws IllegalArgumentException if {@code slowdown} is below 0, or 1 and above */
    public Overheads {
        if (!(slowdown >= 0 && slowdown < 1)) {
            throw new IllegalArgumentException("slowdown must be at least 0 and below 1, not " + slowdown);
        }
    }
}
