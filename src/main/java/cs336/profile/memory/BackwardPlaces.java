package cs336.profile.memory;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;

/**
 * The assignment of places to the blocks that a backward pass allocates. The backward pass opens no ranges, but each of
 * its nodes ends by freeing the tensors that the forward pass saved for it. A block therefore gets the place of the
 * saved tensor that is freed next.
 */
final class BackwardPlaces {
    private BackwardPlaces() {}

    /** Returns the allocations; those inside a phase but in none of its ranges get the place of the next activation. */
    static List<Allocation> of(List<Allocation> allocations, List<MemoryPhase> phases) {
        var freed = new HashMap<Integer, String>();
        for (Allocation a : allocations) {
            if (a.category() == MemoryCategory.ACTIVATIONS) {
                freed.put(a.until(), a.place());
            }
        }
        var next = new HashMap<Integer, String>();
        for (MemoryPhase phase : phases) {
            String place = "";
            for (int event = phase.until() - 1; event >= phase.from(); event--) {
                place = freed.getOrDefault(event, place);
                next.put(event, place);
            }
        }
        var placed = new ArrayList<Allocation>(allocations.size());
        for (Allocation a : allocations) {
            String place = a.place().isEmpty() ? next.getOrDefault(a.from(), "") : "";
            placed.add(place.isEmpty() ? a : a.withPlace(Allocation.BACKWARD_OF + place));
        }
        return placed;
    }
}
