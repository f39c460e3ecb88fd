package cs336.profile.memory;

/**
 * A block of memory with its lifetime. Lifetimes are counted in events: the allocations and releases of a recording in
 * the order in which they happened, from 0.
 *
 * @param address address in the memory of its device
 * @param bytes size of the block; on CUDA at least the size of the tensor, rounded up to a multiple of 512
 * @param from event that allocated the block; {@link #BEFORE} if it existed when the recording started
 * @param until event that freed the block; the number of events if it was never freed
 * @param phase outermost range that was open at the allocation; empty outside all ranges
 * @param place path of the ranges inside the phase, outermost first, as in {@code TransformerLM/layers.0/attn}; for a
 *     block of the backward pass {@code backward of …}, see {@link BackwardPlaces}; empty if unknown
 * @param category kind of data in the block
 * @param name name of the marked tensor, such as {@code layers.0.attn.q_proj.weight}; otherwise empty
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
    /** The value of {@link #from} of a block that existed when the recording started. */
    public static final int BEFORE = -1;

    /** Prefix of the place of a block that a backward pass allocated. */
    public static final String BACKWARD_OF = "backward of ";

    /** Returns a block that existed when the recording started. */
    static Allocation before(long address, long bytes, int until, MemoryCategory category, String name) {
        return new Allocation(address, bytes, BEFORE, until, "", "before the record", category, name);
    }

    /** Returns whether the block exists just after an event. */
    public boolean isAliveAfter(int event) {
        return from <= event && event < until;
    }

    /** Returns the origin of the block: the name of the marked tensor, otherwise the phase and place. */
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

    Allocation withPlace(String place) {
        return new Allocation(address, bytes, from, until, phase, place, category, name);
    }

    Allocation freedAt(int event) {
        return new Allocation(address, bytes, from, event, phase, place, category, name);
    }
}
