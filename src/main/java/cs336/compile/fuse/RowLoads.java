package cs336.compile.fuse;

import cs336.compile.fuse.KernelCode.ElementStore;
import cs336.compile.fuse.KernelLoads.Load;
import java.util.Map;
import java.util.Set;

/**
 * The tensors that a kernel with reductions over columns, and without sums over rows, need not load before the
 * reductions; with their names. Both are empty for other kernels.
 *
 * @param late those that no reduction needs and that are equal for all rows, so that a cache has them
 * @param twice those that both a reduction and the last pass over a row need, by whole accesses
 */
record RowLoads(Map<Load, String> late, Map<Load, String> twice) {
    static RowLoads of(KernelCode code) {
        if (!code.group().hasReduction() || !code.columnSums().isEmpty()) {
            return new RowLoads(Map.of(), Map.of());
        }
        KernelLoads loads = code.loads();
        Set<Load> ofReductions = code.loadsOf(code.members(member -> member.operator() instanceof ReductionOperator));
        Set<Load> ofOutputs =
                code.loadsOf(code.stores().stream().map(ElementStore::member).toList());
        return new RowLoads(
                loads.perElement(load -> !loads.dependsOnRow(load) && !ofReductions.contains(load)),
                loads.perElement(load -> loads.dependsOnRow(load)
                        && loads.isVector(load)
                        && ofReductions.contains(load)
                        && ofOutputs.contains(load)));
    }
}
