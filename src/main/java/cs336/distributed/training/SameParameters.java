package cs336.distributed.training;

import cs336.distributed.collectives.ProcessGroup;
import cs336.torch.DType;
import cs336.torch.ShardedParameters;
import cs336.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** A check that all ranks have the same parameters and buffers, before these are exchanged. */
final class SameParameters {
    private SameParameters() {}

    /**
     * Compares the parameters and buffers of all ranks. All ranks must call it.
     *
     * @throws IllegalArgumentException on every rank, if they differ in number, names, shapes, dtypes or in which of
     *     them require a gradient; on this rank, if one is closed, sharded or not contiguous
     */
    static void require(ProcessGroup group, Map<String, Tensor> named) {
        var descriptions = new ArrayList<String>();
        named.forEach((name, tensor) -> descriptions.add(describe(name, tensor)));
        require(group, descriptions);
    }

    /**
     * Checks that a parameter that was frozen when a container was created is still frozen: its gradient would not be
     * averaged.
     *
     * @throws IllegalStateException if it requires a gradient
     */
    static void requireFrozen(String name, Tensor parameter) {
        if (parameter.requires_grad()) {
            throw new IllegalStateException("parameter " + name
                    + " requires a gradient, but was frozen when its container was created; keep it frozen, or wrap a module"
                    + " in which it is trainable");
        }
    }

    /**
     * Returns the description of a parameter or buffer.
     *
     * @throws IllegalArgumentException if it cannot be exchanged: it is closed, sharded or not contiguous
     */
    static String describe(String name, Tensor tensor) {
        Tensors.requireDefined("tensor " + name, tensor);
        ShardedParameters.requireUnsharded("parameter " + name, tensor);
        if (!tensor.is_contiguous()) {
            throw new IllegalArgumentException("tensor " + name + " must be contiguous");
        }
        return describe(name, DType.of(tensor), Tensors.shape(tensor), tensor.requires_grad());
    }

    /** Returns the description of a parameter, as in {@code fc.weight fp32[4, 2] frozen}. */
    static String describe(String name, DType dtype, long[] shape, boolean isTrainable) {
        return name + " " + dtype + Arrays.toString(shape) + (isTrainable ? "" : " frozen");
    }

    /** Compares the {@linkplain #describe descriptions} of the tensors of all ranks. All ranks must call it. */
    static void require(ProcessGroup group, List<String> descriptions) {
        require(group, descriptions, "tensor", "model");
    }

    /**
     * Compares descriptions of all ranks. All ranks must call it.
     *
     * @param each what is described
     * @param whole what must be the same
     */
    static void require(ProcessGroup group, List<String> descriptions, String each, String whole) {
        List<ArrayList<String>> all = group.allGather(new ArrayList<>(descriptions));
        for (int rank = 1; rank < all.size(); rank++) {
            List<String> first = all.get(0);
            List<String> other = all.get(rank);
            for (int i = 0; i < Math.max(first.size(), other.size()); i++) {
                String onFirst = i < first.size() ? first.get(i) : "none";
                String onOther = i < other.size() ? other.get(i) : "none";
                if (!onFirst.equals(onOther)) {
                    throw new IllegalArgumentException(each + " " + i + " is " + onFirst + " on rank 0, but " + onOther
                            + " on rank " + rank + "; all ranks must have the same " + whole);
                }
            }
        }
    }
}
