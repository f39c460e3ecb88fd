package cs336.profile.memory;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;

/**
 * Where in the model a backward pass is when it allocates. It opens no ranges, but each of its nodes frees, when it is
 * done, the tensors that the forward pass has saved for it. So what a node allocates belongs to the place whose saved
 * tensor is freed next.
 */
public final class BackwardPlaces {
    private BackwardPlaces() {}

    /**
     * The same allocations; those in a phase and in no range inside it get the place of the activation that is freed
     * next.
     */
    public static List<Allocation> of(List<Allocation> allocations, List<MemoryPhase> phases) {
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
            placed.add(place.isEmpty() ? a : a.at(Allocation.BACKWARD_OF + place));
        }
        return placed;
    }
}
