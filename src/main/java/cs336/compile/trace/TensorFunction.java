package cs336.compile.trace;

import org.bytedeco.pytorch.Tensor;

/** A function of tensors. What it computes may depend on dtypes, shapes and strides, but not on elements. */
@FunctionalInterface
public interface TensorFunction {
    /**
     * Computes the outputs in the caller's memory scope.
     *
     * @return the outputs; null for one that does not exist
     */
    Tensor[] apply(Tensor... inputs);
}
