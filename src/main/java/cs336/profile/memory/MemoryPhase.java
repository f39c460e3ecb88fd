package cs336.profile.memory;

/**
 * An outermost range of a record.
 *
 * @param name of the range
 * @param from its first event; it may have none
 * @param until the first event after it
 */
public record MemoryPhase(String name, int from, int until) {}
