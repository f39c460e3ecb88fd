package cs336.torch;

import org.bytedeco.pytorch.Tensor;

/**
 * A function of tensors whose work PyTorch's dispatcher does not see, such as a launch of a CUDA kernel. A recorded
 * program contains each call as one operation. Implementations are records. Besides the input tensors, the result may
 * depend only on the components of the record, so that equal operators compute equal outputs from equal inputs.
 */
public interface JavaOperator {
    /** Returns the name in printed programs. */
    String name();

    /**
     * Computes the outputs as new tensors in the caller's memory scope. The inputs must not be changed.
     *
     * @param inputs the inputs of {@link #call}; on a replay, tensors of the same dtypes, shapes and strides
     */
    Tensor[] compute(Tensor... inputs);

    /** Calls the operator so that an {@link OperatorInterceptor} sees it. */
    default Tensor[] call(Tensor... inputs) {
        return OperatorInterceptor.call(this, inputs);
    }
}
