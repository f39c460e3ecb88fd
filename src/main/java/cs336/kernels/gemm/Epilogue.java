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
    NONE,
    /** gelu(P) = P ∘ Φ(P), with the standard normal distribution Φ, of one result P. */
    GELU,
    /** silu(P) ∘ Q of two results P and Q. */
    SWIGLU;

    /**
     * Returns the bytes that are not moved: a separate kernel would need stored results of this dtype, and read them.
     */
    double savedBytes(LinearProblem problem, DType type) {
        return this == NONE ? 0 : 2.0 * type.bytes() * problem.rows() * problem.allColumns();
    }

    /**
     * Returns whether tiles with this number of columns are those that the function needs: for SwiGLU each has columns
     * of both results, otherwise of one.
     */
    boolean canUseTiles(LinearProblem problem, int tileColumns) {
        return this == SWIGLU || problem.weights() == 1 || problem.columns() % tileColumns == 0;
    }

    /** Returns the number of columns that are stored for a problem. */
    long columns(LinearProblem problem) {
        return this == SWIGLU ? problem.columns() : problem.allColumns();
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
