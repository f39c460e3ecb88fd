package cs336.kernels.norms;

import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.KernelLog;
import cs336.kernels.runtime.Route;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.AutogradFunction;
import cs336.torch.DType;
import cs336.torch.JavaOperator;
import cs336.torch.Tensors;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;

/**
 * RMSNorm as one fused kernel for the forward pass and one for the backward pass, which write every tensor once. They
 * also read it once, unless a row does not fit into registers or, in the forward pass, x has more than
 * {@link Gpu#STREAM_BYTES} bytes: then they may load a row twice. A small second kernel of the backward pass sums the
 * blocks' partial gradients of the weight in a fixed order. The formulas are those of {@link RmsNormFunction}, which
 * runs instead of the kernels
 *
 * <ul>
 *   <li>if x is not on a CUDA device of sm_80 or newer,
 *   <li>for fp64, which the kernels do not support,
 *   <li>in a backward pass with {@code create_graph}, whose result must be differentiable.
 * </ul>
 *
 * {@link KernelLog} shows which of the two ran.
 */
public final class FusedRmsNorm extends AutogradFunction {
    private final double eps;

    private FusedRmsNorm(double eps) {
        this.eps = eps;
    }

    /**
     * Normalizes the last dimension, like {@link RmsNormFunction#apply(Tensor, Tensor, double)}.
     *
     * @param x […, H], fp64, fp32, bf16 or fp16; copied first if it is not contiguous
     * @param weight [H], of x's dtype or fp32
     * @param eps added to the mean square, at least 0
     * @return tensor with x's shape and dtype, in the caller's memory scope
     * @throws IllegalArgumentException if shapes, dtypes or devices do not match, or eps is negative or not finite
     */
    public static Tensor apply(Tensor x, Tensor weight, double eps) {
        RmsNormFunction.require(x, weight, eps);
        return new FusedRmsNorm(eps).apply(x, weight)[0];
    }

    /** Returns the route that a call with x […, H] takes. */
    public static Route route(Tensor x) {
        Tensors.requireDefined("x", x);
        boolean hasKernel = x.is_cuda()
                && TensorChecks.KERNEL_TYPES.contains(DType.of(x))
                && Gpu.of(x).runsKernels();
        return hasKernel ? Route.KERNEL : Route.TENSOR_OPERATIONS;
    }

    /** Returns the reason for tensor operations, for {@link KernelLog}. */
    static String reason(Tensor x) {
        return "for " + DType.of(x) + " on " + (x.is_cuda() ? Gpu.of(x).architecture() : "cpu");
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        Tensor x = inputs[0];
        Tensor weight = inputs[1];
        ctx.save(x, weight);
        if (route(x) == Route.TENSOR_OPERATIONS) {
            KernelLog.noteTensorOperations("rmsnorm_forward", reason(x));
            return new Tensor[] {RmsNormFunction.value(x, weight, eps)};
        }
        Tensor contiguous = x.contiguous();
        return new Tensor[] {
            x.numel() == 0 ? contiguous.clone() : new ForwardKernel(eps).call(contiguous, weight.contiguous())[0]
        };
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
        Tensor x = ctx.saved(0);
        boolean createGraph = GradMode.is_enabled();
        if (createGraph || x.numel() == 0 || route(x) == Route.TENSOR_OPERATIONS) {
            KernelLog.noteTensorOperations(
                    "rmsnorm_backward", reason(x) + (createGraph ? ", to be differentiated again" : ""));
            return RmsNormFunction.gradients(ctx, gradOutputs[0], eps);
        }
        Tensor[] gradients =
                new BackwardKernels(eps).call(x.contiguous(), ctx.saved(1).contiguous(), gradOutputs[0].contiguous());
        return new Tensor[] {ctx.needsInputGrad(0) ? gradients[0] : null, ctx.needsInputGrad(1) ? gradients[1] : null};
    }

    /** The kernel of the forward pass: x, weight → y. */
    private record ForwardKernel(double eps) implements JavaOperator {
        @Override
        public String name() {
            return "rmsnorm";
        }

        @Override
        public Tensor[] compute(Tensor... in) {
            return new Tensor[] {RmsNormKernels.forward(in[0], in[1], eps)};
        }
    }

    /** The kernels of the backward pass: x, weight, dy → dx, dw. */
    private record BackwardKernels(double eps) implements JavaOperator {
        @Override
        public String name() {
            return "rmsnorm_backward";
        }

        @Override
        public Tensor[] compute(Tensor... in) {
            return RmsNormKernels.backward(in[0], in[1], in[2], eps);
        }
    }
}
