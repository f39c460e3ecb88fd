package cs336.kernels.runtime;

/** The implementation that a fused function used: its CUDA kernel, or its reference in tensor operations. */
public enum Route {
    /** A CUDA kernel of this project. */
    KERNEL,
    /** The reference in PyTorch's tensor operations. */
    TENSOR_OPERATIONS;

    @Override
    public String toString() {
        return this == KERNEL ? "kernel" : "tensor operations";
    }
}
