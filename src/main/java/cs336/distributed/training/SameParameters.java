package cs336.distributed.training;

import cs336.distributed.collectives.ProcessGroup;
import cs336.torch.DType;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** That all ranks train the same parameters, before anything is sent of them. */
final class SameParameters {
    private SameParameters() {}

    /**
     * All ranks call it.
     *
     * @throws IllegalArgumentException on every rank, if parameters differ in number, names, shapes, types or in which
     *     of them learn; on this one, if one is not contiguous
     */
    static void require(ProcessGroup group, Map<String, Tensor> named) {
        var mine = new ArrayList<String>();
        named.forEach((name, parameter) -> {
            if (!parameter.is_contiguous()) {
                throw new IllegalArgumentException("parameter " + name + " must be contiguous");
            }
            mine.add(name + " " + DType.of(parameter) + Arrays.toString(Tensors.shape(parameter))
                    + (parameter.requires_grad() ? "" : " frozen"));
        });
        List<ArrayList<String>> all = group.allGather(mine);
        for (int rank = 1; rank < all.size(); rank++) {
            List<String> ours = all.get(0);
            List<String> theirs = all.get(rank);
            for (int i = 0; i < Math.max(ours.size(), theirs.size()); i++) {
                String here = i < ours.size() ? ours.get(i) : "none";
                String there = i < theirs.size() ? theirs.get(i) : "none";
                if (!here.equals(there)) {
                    throw new IllegalArgumentException("parameter " + i + " is " + here + " on rank 0, but " + there
                            + " on rank " + rank + ": all ranks need the same model");
                }
            }
        }
    }
}
