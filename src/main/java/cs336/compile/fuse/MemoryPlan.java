package cs336.compile.fuse;

import cs336.compile.program.ProgramValue;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;

/**
 * The values of the forward pass that the backward pass of a {@link Partition} reads, divided into inputs, saved values
 * and values that it computes again.
 *
 * @param inputs the inputs of the function, which are in memory anyway
 * @param saved the values that the forward pass stores for the backward pass
 * @param recomputed the values that the backward pass computes again
 */
public record MemoryPlan(List<ProgramValue> inputs, List<ProgramValue> saved, List<ProgramValue> recomputed) {
    /** Returns the plan of a partition that is not fused yet. */
    public static MemoryPlan of(Partition partition) {
        Set<ProgramValue> computed = partition.forward().producers().keySet();
        List<ProgramValue> loaded = partition.backward().inputs();
        return new MemoryPlan(
                common(loaded, partition.forward().inputs()),
                common(loaded, computed),
                common(partition.backward().producers().keySet(), computed));
    }

    private static List<ProgramValue> common(Collection<ProgramValue> values, Collection<ProgramValue> others) {
        List<ProgramValue> common = new ArrayList<>(values);
        common.retainAll(others);
        return List.copyOf(common);
    }
}
