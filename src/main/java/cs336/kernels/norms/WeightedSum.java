package cs336.kernels.norms;

import static cs336.kernels.norms.RmsNormFunction.castLike;
import static cs336.kernels.norms.RmsNormFunction.widened;

import cs336.kernels.runtime.BlockDim;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.GridDim;
import cs336.kernels.runtime.Kernel;
import cs336.kernels.runtime.KernelLog;
import cs336.kernels.runtime.KernelModule;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.Route;
import cs336.kernels.runtime.RowLayout;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.AutogradFunction;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.Tensors;
import cs336.units.IntegerMath;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Weighted sums of rows, the first kernel of the course, in {@code kernels/weighted_sum.cu}:
 *
 * <pre>
 * y[…]     = Σ over h of x[…, h] · w[h]
 * dx[…, h] = dy[…] · w[h]
 * dw[h]    = Σ over rows of dy[…] · x[…, h]
 * </pre>
 *
 * <p>Sums are accumulated in fp32. Tensor operations replace the kernels in the same cases as for {@link FusedRmsNorm},
 * and for an x without elements. A function that is compiled on a GPU must not launch the kernels: they are no
 * {@link cs336.torch.JavaOperator}, and a launch throws {@link IllegalStateException}.
 */
public final class WeightedSum extends AutogradFunction {
    private static final KernelSource SOURCE = KernelSource.named("weighted_sum.cu");
    private static final Map<WeightedSumKey, SizedKernel> KERNELS = new ConcurrentHashMap<>();

    private record WeightedSumKey(String pass, DType type, int vector, Device device) {}

    /** A kernel with the size of its blocks, and how many of them a multiprocessor holds at a time. */
    private record SizedKernel(Kernel kernel, BlockDim block, int residentBlocks) {}

    private WeightedSum() {}

    /**
     * Returns the weighted sum of each row.
     *
     * @param x […, H], fp64, fp32, bf16 or fp16; copied first if it is not contiguous
     * @param weight [H], of x's dtype
     * @return […] of x's dtype, in the caller's memory scope
     * @throws IllegalArgumentException if shapes, dtypes or devices do not match
     */
    public static Tensor apply(Tensor x, Tensor weight) {
        TensorChecks.type("x", x, TensorChecks.FLOATING);
        TensorChecks.vectorFor("weight", weight, "x", x);
        if (DType.of(weight) != DType.of(x)) {
            throw new IllegalArgumentException(
                    "weight must be of x's dtype " + DType.of(x) + ", not " + DType.of(weight));
        }
        return new WeightedSum().apply(new Tensor[] {x, weight})[0];
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        Tensor x = inputs[0];
        Tensor weight = inputs[1];
        ctx.save(x, weight);
        if (x.numel() == 0 || FusedRmsNorm.route(x) == Route.TENSOR_OPERATIONS) {
            KernelLog.noteTensorOperations("weighted_sum_forward", FusedRmsNorm.reason(x));
            return new Tensor[] {castLike(x, widened(x).mul(widened(weight)).sum(-1))};
        }
        return new Tensor[] {launchForward(x.contiguous(), weight.contiguous())};
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
        Tensor x = ctx.saved(0); // […, H]
        Tensor weight = ctx.saved(1); // [H]
        Tensor dy = gradOutputs[0]; // […]
        Tensor[] gradients;
        if (GradMode.is_enabled() || x.numel() == 0 || FusedRmsNorm.route(x) == Route.TENSOR_OPERATIONS) {
            KernelLog.noteTensorOperations("weighted_sum_backward", FusedRmsNorm.reason(x));
            Tensor column = widened(dy).unsqueeze(-1); // […, 1]
            gradients = new Tensor[] {
                castLike(x, column.mul(widened(weight))),
                castLike(
                        weight,
                        column.mul(widened(x)).reshape(-1, weight.size(0)).sum(0))
            };
        } else {
            gradients = launchBackward(x.contiguous(), weight.contiguous(), dy.contiguous());
        }
        return new Tensor[] {ctx.needsInputGrad(0) ? gradients[0] : null, ctx.needsInputGrad(1) ? gradients[1] : null};
    }

    private static Tensor launchForward(Tensor x, Tensor weight) {
        RowLayout layout = RowLayout.of(weight, x);
        Gpu gpu = Gpu.of(layout.device());
        long rows = x.numel() / layout.width();
        Tensor y = gpu.empty(layout.type(), Tensors.leadingShape(x));
        var grid = new GridDim((int) Math.min(rows, Integer.MAX_VALUE));
        SizedKernel forward = kernel("forward", layout);
        forward.kernel.launch(grid, forward.block, 0, x, weight, y, rows, layout.width());
        return y;
    }

    private static Tensor[] launchBackward(Tensor x, Tensor weight, Tensor dy) {
        Tensor dx = torch.empty_like(x);
        RowLayout layout = RowLayout.of(weight, x, dx);
        Gpu gpu = Gpu.of(layout.device());
        long rows = x.numel() / layout.width();
        SizedKernel backward = kernel("backward", layout);
        int gridX = IntegerMath.ceilDiv(layout.accesses(), backward.block.threads());
        long gridY = Math.max(1, (long) gpu.multiprocessors() * backward.residentBlocks / gridX);
        var grid = new GridDim(gridX, (int) Math.min(rows, gridY));
        Tensor partial = gpu.empty(grid.y(), layout.width());
        backward.kernel.launch(grid, backward.block, 0, x, weight, dy, dx, partial, rows, layout.width());
        return new Tensor[] {dx, ColumnSum.of(partial, layout.type(), layout.device())};
    }

    private static SizedKernel kernel(String pass, RowLayout layout) {
        return KERNELS.computeIfAbsent(
                new WeightedSumKey(pass, layout.type(), layout.vector(), layout.device()), key -> {
                    Kernel kernel = KernelModule.load(
                                    SOURCE, defines(pass, layout.type(), layout.vector()), layout.device())
                            .kernel("weighted_sum_" + pass);
                    var block = new BlockDim(threads(pass));
                    return new SizedKernel(kernel, block, kernel.residentBlocks(block, 0));
                });
    }

    /**
     * Returns the macros to compile a kernel with.
     *
     * @param pass {@code forward} or {@code backward}
     * @param vector contiguous elements per memory access
     */
    public static Map<String, Object> defines(String pass, DType type, int vector) {
        Map<String, Object> defines = new LinkedHashMap<>();
        defines.put(pass.equals("forward") ? "FORWARD" : "BACKWARD", 1);
        defines.put("ELEMENT", RowLayout.cudaName(type));
        defines.put("VECTOR", vector);
        defines.put("THREADS", threads(pass));
        return defines;
    }

    /** Returns the number of threads per block; kernels/README.md has the measurements. */
    private static int threads(String pass) {
        return pass.equals("forward") ? 64 : 128;
    }
}
