package cs336.compile.fuse;

import cs336.torch.DType;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * The casts that an optimizer of fp32 master weights does in place of a compiled mixed-precision step: it stores 16-bit
 * copies of the weights, and may read 16-bit gradients.
 */
public interface MasterWeights {
    /** The step does all casts. */
    MasterWeights NONE = new MasterWeights() {};

    /**
     * Returns copies that the optimizer keeps up to date. Those that it creates for this call are adjacent in memory.
     *
     * @param names names of the tensors that the step reads
     * @param dtype dtype of the copies
     * @return the copies in the order of the names; null if one of them is no parameter of the optimizer, or has no
     *     copy in this dtype
     */
    default List<Tensor> copies(List<String> names, DType dtype) {
        return null;
    }

    /** Returns whether the optimizer reads 16-bit gradients of fp32 parameters. */
    default boolean readsNarrowGradients() {
        return false;
    }
}
