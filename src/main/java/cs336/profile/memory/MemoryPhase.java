package cs336.profile.memory;

/**
 * A phase of a recording: an outermost range, such as {@code forward}.
 *
 * @param name name of the range
 * @param from first event of the range; equal to {@code until} if it has none
 * @param until first event after the range
 */
public record MemoryPhase(String name, int from, int until) {}
