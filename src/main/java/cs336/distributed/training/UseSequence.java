package cs336.distributed.training;

import java.util.ArrayList;
import java.util.List;

/** The order in which a pass uses units, which predicts the order of the next pass. */
final class UseSequence {
    /**
     * One use of a unit.
     *
     * @param backward whether the unit's backward pass begins; otherwise its forward pass does
     */
    record Use(FsdpUnit unit, boolean backward) {
        /** Returns whether the values of the parameters are read: not in the backward pass of an embedding. */
        boolean needsParameters() {
            return !backward || !unit.isEmbedding();
        }
    }

    private List<Use> previous = List.of();
    private final List<Use> current = new ArrayList<>();
    private boolean matches = true;

    /** Begins a pass. */
    void begin() {
        if (!current.isEmpty()) {
            previous = List.copyOf(current);
        }
        current.clear();
        matches = true;
    }

    /** Appends a use. */
    void add(Use use) {
        int position = current.size();
        matches &= position < previous.size() && previous.get(position).equals(use);
        current.add(use);
    }

    /** Returns the uses that are expected next; none if this pass has differed from the previous one. */
    List<Use> expected() {
        return matches ? previous.subList(current.size(), previous.size()) : List.of();
    }

    /** Returns the uses that are expected in the next pass. */
    List<Use> expectedFirst() {
        return current.isEmpty() ? previous : List.copyOf(current);
    }
}
