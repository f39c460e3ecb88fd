package cs336.kernels.gemm;

import cs336.torch.DType;
import java.util.Locale;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The function of the results of matrix multiplications whose values a kernel stores instead of the results, from
 * {@code kernels/epilogue.cuh}. A separate kernel would read the results again.
 */
public enum Epilogue {
    /** The results, without a function. */
    NONE(1, 0),
    /** gelu(P) = P ∘ Φ(P), with the standard normal distribution Φ, of one result P. */
    GELU(1, 2),
    /** silu(P) ∘ Q of two results P and Q. */
    SWIGLU(2, 4);

    private final int results;
    private final int savedAccesses; // per element of the function's value, by storing and reading results

    Epilogue(int results, int savedAccesses) {
        this.results = results;
        this.savedAccesses = savedAccesses;
    }

    /** Returns the bytes of results of this dtype that a separate kernel for the function would make necessary. */
    double savedBytes(LinearProblem problem, DType type) {
        return (double) type.bytes() * savedAccesses * problem.rows() * problem.columns();
    }

    /** Returns the number of columns that are stored for a problem. */
    long columns(LinearProblem problem) {
        return problem.allColumns() / results;
    }

    /** Returns the function of results that are side by side, by PyTorch's operators. */
    Tensor of(Tensor product) {
        return switch (this) {
            case NONE -> product;
            case GELU -> torch.gelu(product);
            case SWIGLU -> {
                long columns = product.size(1) / 2;
                yield torch.silu(product.narrow(1, 0, columns)).mul(product.narrow(1, columns, columns));
            }
        };
    }

    /** Returns the name of a kernel with this function. */
    public String name(String kernel) {
        return this == NONE ? kernel : kernel + "_" + name().toLowerCase(Locale.ROOT);
    }
}
