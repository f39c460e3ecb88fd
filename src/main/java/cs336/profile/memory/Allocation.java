package cs336.profile.memory;

/**
 * A block of memory from its allocation to its release. Times are counted in events: the allocations and releases of a
 * record, in their order, from 0.
 *
 * @param address on its device
 * @param bytes size of the block; on CUDA at least the tensor's, a multiple of 512
 * @param from the event that allocated it; {@link #BEFORE} if it was there when the record began
 * @param until the event that freed it; the record's number of events if none did
 * @param phase outermost range at its allocation; empty outside of any
 * @param place ranges inside the phase, outermost first, as in {@code TransformerLM/layers.0/attn}; for a backward
 *     pass, which has none, {@code backward of …} with the place whose saved tensor was freed next; empty where unknown
 * @param category what it holds
 * @param name of what was marked, such as {@code layers.0.attn.q_proj.weight}; empty otherwise
 */
public record Allocation(
        long address,
        long bytes,
        int from,
        int until,
        String phase,
        String place,
        MemoryCategory category,
        String name) {
    /** When blocks were allocated that a record found. */
    public static final int BEFORE = -1;

    /** How the place of a block begins that a backward pass allocated. */
    public static final String BACKWARD_OF = "backward of ";

    /** Whether the block is there just after an event. */
    public boolean isAliveAfter(int event) {
        return from <= event && event < until;
    }

    /** Where it comes from, in words: the name of what was marked, otherwise phase and place. */
    public String origin() {
        if (!name.isEmpty()) {
            return name;
        }
        if (place.isEmpty() || phase.isEmpty() || place.startsWith(BACKWARD_OF)) {
            String where = place.isEmpty() ? phase : place;
            return where.isEmpty() ? "outside of any range" : where;
        }
        return phase + ": " + place;
    }

    /** The same block, found to be from another place. */
    public Allocation at(String place) {
        return new Allocation(address, bytes, from, until, phase, place, category, name);
    }

    /** The same block, freed by this event. */
    Allocation until(int event) {
        return new Allocation(address, bytes, from, event, phase, place, category, name);
    }
}
