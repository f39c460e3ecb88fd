package cs336.kernels.norms;

import cs336.kernels.runtime.KernelLog;
import cs336.kernels.runtime.Route;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.AutogradFunction;
import cs336.torch.DType;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;

/**
 * RMSNorm as one kernel forward and one backward (and a small one that adds up the blocks' parts of the weight's
 * gradient, always in the same order). Each moves every tensor just once. Formulas as in {@link RmsNormFunction}, which
 * runs instead
 *
 * <ul>
 *   <li>where x is not on a CUDA card,
 *   <li>for fp64, for which there is no kernel,
 *   <li>in a backward pass that is to be differentiated again.
 * </ul>
 *
 * {@link KernelLog} shows which of them ran.
 */
public final class FusedRmsNorm extends AutogradFunction {
    private final double eps;

    private FusedRmsNorm(double eps) {
        this.eps = eps;
    }

    /**
     * Normalises the last dimension; see {@link RmsNormFunction#apply(Tensor, Tensor, double)}.
     *
     * @param x […, H], fp32, bf16 or fp16 (on the CPU fp64 too), of any strides; dense is fastest
     * @param weight [H], of x's type or fp32
     * @param eps added to the mean square, at least 0
     * @return like x, in the caller's memory scope
     * @throws IllegalArgumentException if shapes, types or devices do not fit
     */
    public static Tensor apply(Tensor x, Tensor weight, double eps) {
        RmsNormFunction.require(x, weight, eps);
        return new FusedRmsNorm(eps).apply(x, weight)[0];
    }

    /** Which way a call with this x takes. */
    public static Route route(Tensor x) {
        return x.is_cuda() && TensorChecks.KERNEL_TYPES.contains(DType.of(x)) ? Route.KERNEL : Route.TENSOR_OPERATIONS;
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        Tensor x = inputs[0];
        Tensor weight = inputs[1];
        ctx.save(x, weight);
        if (route(x) == Route.TENSOR_OPERATIONS) {
            KernelLog.noteTensorOperations("rmsnorm_forward", "for " + DType.of(x) + (x.is_cuda() ? "" : " on cpu"));
            return new Tensor[] {RmsNormFunction.value(x, weight, eps)};
        }
        Tensor dense = x.contiguous();
        return new Tensor[] {x.numel() == 0 ? dense.clone() : RmsNormKernels.forward(dense, weight.contiguous(), eps)};
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
        Tensor x = ctx.saved(0);
        boolean differentiatedAgain = GradMode.is_enabled();
        if (differentiatedAgain || x.numel() == 0 || route(x) == Route.TENSOR_OPERATIONS) {
            KernelLog.noteTensorOperations(
                    "rmsnorm_backward",
                    "for " + DType.of(x) + (x.is_cuda() ? "" : " on cpu")
                            + (differentiatedAgain ? ", to be differentiated again" : ""));
            return RmsNormFunction.gradients(ctx, gradOutputs[0], eps);
        }
        Tensor[] gradients =
                RmsNormKernels.backward(x.contiguous(), ctx.saved(1).contiguous(), gradOutputs[0].contiguous(), eps);
        return new Tensor[] {ctx.needsInputGrad(0) ? gradients[0] : null, ctx.needsInputGrad(1) ? gradients[1] : null};
    }
}
