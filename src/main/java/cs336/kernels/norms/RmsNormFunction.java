package cs336.kernels.norms;

import cs336.kernels.runtime.TensorChecks;
import cs336.torch.AutogradFunction;
import cs336.torch.DType;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * RMSNorm in tensor operations, with hand-derived gradients. With r = 1 / √(mean(x²) + eps) and x̂ = x · r, over the
 * last dimension:
 *
 * <pre>
 * y  = x̂ · w
 * dw = Σ over rows of dy · x̂
 * dx = r · (g − x̂ · mean(g · x̂))     with g = dy · w
 * </pre>
 *
 * <p>The second term of dx is the gradient through r, with ∂r/∂x = −r³ · x / H. Inputs in bf16 and fp16 are computed in
 * fp32.
 */
public final class RmsNormFunction extends AutogradFunction {
    private static final long[] LAST = {-1};

    private final double eps;

    private RmsNormFunction(double eps) {
        this.eps = eps;
    }

    /**
     * Normalizes the last dimension.
     *
     * @param x […, H], fp64, fp32, bf16 or fp16, with any strides
     * @param weight [H], of x's dtype or fp32
     * @param eps added to the mean square, at least 0
     * @return tensor with x's shape and dtype, in the caller's memory scope
     * @throws IllegalArgumentException if shapes, dtypes or devices do not match, or eps is negative or not finite
     */
    public static Tensor apply(Tensor x, Tensor weight, double eps) {
        require(x, weight, eps);
        return new RmsNormFunction(eps).apply(x, weight)[0];
    }

    /** Checks the arguments of {@link #apply(Tensor, Tensor, double)}. */
    static void require(Tensor x, Tensor weight, double eps) {
        TensorChecks.type("x", x, TensorChecks.FLOATING);
        TensorChecks.vectorFor("weight", weight, "x", x);
        DType type = DType.of(weight);
        if (type != DType.of(x) && type != DType.FLOAT32) {
            throw new IllegalArgumentException("weight must be fp32 or of x's dtype " + DType.of(x) + ", not " + type);
        }
        if (!(eps >= 0 && eps < Double.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException("eps must be finite and at least 0, not " + eps);
        }
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        ctx.save(inputs);
        return new Tensor[] {value(inputs[0], inputs[1], eps)};
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
        return gradients(ctx, gradOutputs[0], eps);
    }

    /** Returns y. */
    static Tensor value(Tensor x, Tensor weight, double eps) {
        Tensor wide = widened(x);
        return castLike(x, wide.mul(reciprocalRoot(wide, eps)).mul(weight));
    }

    /** Returns dx and dw from the saved x and weight; a gradient that is not needed is null. */
    static Tensor[] gradients(Context ctx, Tensor dy, double eps) {
        return gradients(ctx.saved(0), ctx.saved(1), dy, eps, ctx.needsInputGrad(0), ctx.needsInputGrad(1));
    }

    /** Returns dx and dw; null for one that is not needed. */
    static Tensor[] gradients(
            Tensor xGiven, Tensor weight, Tensor dyGiven, double eps, boolean needsDx, boolean needsDw) {
        Tensor x = widened(xGiven); // […, H]
        Tensor dy = widened(dyGiven); // […, H]
        Tensor r = reciprocalRoot(x, eps); // […, 1]
        Tensor normalized = x.mul(r); // […, H]
        Tensor dx = null;
        if (needsDx) {
            Tensor g = dy.mul(weight);
            Tensor mean = g.mul(normalized).mean(LAST, true, new ScalarTypeOptional()); // […, 1]
            dx = castLike(xGiven, g.sub(normalized.mul(mean)).mul(r));
        }
        Tensor dw = null;
        if (needsDw) {
            dw = castLike(weight, dy.mul(normalized).reshape(-1, weight.size(0)).sum(0)); // [rows, H] → [H]
        }
        return new Tensor[] {dx, dw};
    }

    private static Tensor reciprocalRoot(Tensor x, double eps) {
        return x.square()
                .mean(LAST, true, new ScalarTypeOptional())
                .add(new Scalar(eps))
                .rsqrt();
    }

    /** Returns the tensor in fp32 if it is bf16 or fp16, else the tensor itself. */
    static Tensor widened(Tensor tensor) {
        return tensor.element_size() < Float.BYTES ? tensor.to(ScalarType.Float) : tensor;
    }

    /** Returns the value in the dtype of another tensor. */
    static Tensor castLike(Tensor other, Tensor value) {
        return value.to(other.scalar_type());
    }
}
