package cs336.kernels.runtime;

/** The two ways in which a function of this package can run. */
public enum Route {
    /** As a CUDA kernel of this project. */
    KERNEL,
    /** As its reference in PyTorch's tensor operations. */
    TENSOR_OPERATIONS;

    @Override
    public String toString() {
        return this == KERNEL ? "kernel" : "tensor operations";
    }
}
