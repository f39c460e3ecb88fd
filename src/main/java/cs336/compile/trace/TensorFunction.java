package cs336.compile.trace;

import org.bytedeco.pytorch.Tensor;

/** A function of tensors whose operations depend on dtypes, shapes and strides of its inputs, but not on elements. */
@FunctionalInterface
public interface TensorFunction {
    /**
     * Computes the outputs in the caller's memory scope.
     *
     * @return the outputs; null for one that does not exist
     */
    Tensor[] apply(Tensor... inputs);
}
