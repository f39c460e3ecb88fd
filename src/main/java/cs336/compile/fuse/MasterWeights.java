package cs336.compile.fuse;

import cs336.torch.DType;
import org.bytedeco.pytorch.Tensor;

/** The casts of mixed precision that an optimizer of fp32 parameters takes over from a compiled training step. */
public interface MasterWeights {
    /** No cast is taken over. */
    MasterWeights NONE = new MasterWeights() {
        @Override
        public Tensor copy(String name, DType dtype) {
            return null;
        }

        @Override
        public boolean readsNarrowGradients() {
            return false;
        }
    };

    /**
     * Returns a copy that the optimizer keeps up to date.
     *
     * @param name of a tensor that the step reads
     * @return null if it is no parameter of the optimizer, or has no copy in this dtype
     */
    Tensor copy(String name, DType dtype);

    /** Returns whether the optimizer reads 16-bit gradients of fp32 parameters. */
    boolean readsNarrowGradients();
}
