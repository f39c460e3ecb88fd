package cs336.basics;

import cs336.torch.Autocast;
import cs336.torch.AutogradFunction;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.OperatorInterceptor;
import cs336.torch.ProfilerRange;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Optional;
import java.util.ServiceLoader;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * The cross-entropy of a linear layer's outputs, without storing all logits. It computes the logits of some rows at a
 * time, their loss and both gradients, all in the forward pass; the backward pass only scales the gradients. A
 * {@link CrossEntropyKernel} computes the loss and the gradient of the logits if one supports them.
 *
 * <p>With logits Z = X·Wᵀ of N tokens and P = softmax(Z), the gradient of the mean loss is G = (P − onehot(targets)) ÷
 * N, and dX = G·W, dW = Gᵀ·X. Only the logits of one chunk of rows are in memory, without a kernel also their fp32
 * probabilities. dW is accumulated over all chunks in fp32 (fp64 for fp64 inputs). The backward pass needs dX and dW,
 * which are saved in place of the logits.
 *
 * <p>Under autocast the matrix multiplications run in the autocast dtype, as in a linear layer. There is no second
 * derivative.
 *
 * <p>Source: Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024.
 */
public final class LinearCrossEntropy extends AutogradFunction {
    private static final long[] SCALAR = {};
    private static final Scalar ONE = MemoryScope.keep(new Scalar(1.0));
    private static final Scalar MINUS_ONE = MemoryScope.keep(new Scalar(-1.0));

    /**
     * A kernel for the rows of logits of a {@link LinearCrossEntropy}, which computes their losses and replaces them by
     * their gradients. Implementations are registered as services ({@link ServiceLoader}). If none supports the logits,
     * operators of PyTorch compute losses and gradients.
     */
    public interface CrossEntropyKernel {
        /** Returns whether the kernel supports these logits, [n, V]. */
        boolean supports(Tensor logits);

        /**
         * Enqueues the kernel on the current stream. It replaces the logits by softmax(logits) − onehot(targets).
         *
         * @param logits [n, V], supported
         * @param targets [n], int64, contiguous. With a target that is not from 0 to V − 1, the loss and the gradients
         *     of its row are NaN.
         * @return the cross-entropy of each row in nats, fp32 [n], in the caller's memory scope
         * @throws IllegalArgumentException if the targets have another shape, dtype or layout
         */
        Tensor replaceByGradients(Tensor logits, Tensor targets);

        /** Returns the first service that supports these logits. */
        static Optional<CrossEntropyKernel> find(Tensor logits) {
            return Services.of(CrossEntropyKernel.class)
                    .filter(kernel -> kernel.supports(logits))
                    .findFirst();
        }
    }

    private final int rows;

    private LinearCrossEntropy(int rows) {
        this.rows = rows;
    }

    /**
     * Returns the mean cross-entropy of x·Wᵀ in nats, in the {@link ProfilerRange} {@code loss}.
     *
     * @param x [..., D], any floating type
     * @param weight W [V, D]
     * @param targets [...], int64, each from 0 to V − 1. Only targets on the CPU are checked. On CUDA a target out of
     *     range makes the loss NaN where a {@link CrossEntropyKernel} runs (16-bit logits), and triggers a device
     *     assertion elsewhere
     * @param rows number of rows whose logits are in memory at a time, at least 1
     * @return a 0-dimensional tensor, in fp32 (fp64 for fp64 inputs), in the caller's memory scope
     * @throws IllegalArgumentException if shapes or dtypes do not match, there is no token, or a target on the CPU is
     *     out of range
     */
    public static Tensor of(Tensor x, Tensor weight, Tensor targets, int rows) {
        TransformerConfig.requirePositive("rows", rows);
        Tensors.requireDefined("x", x);
        Tensors.requireDefined("weight", weight);
        if (weight.dim() != 2 || x.dim() < 1 || x.size(-1) != weight.size(1)) {
            throw new IllegalArgumentException("weight must be [V, D] for x [..., D]; weight "
                    + Arrays.toString(Tensors.shape(weight)) + ", x "
                    + Arrays.toString(Tensors.shape(x)));
        }
        if (!x.is_floating_point() || !weight.is_floating_point()) {
            throw new IllegalArgumentException(
                    "x and weight must be floating-point, not " + DType.of(x) + " and " + DType.of(weight));
        }
        long[] logits = Tensors.shape(x);
        logits[logits.length - 1] = weight.size(0);
        Losses.requireTargets(logits, targets);
        try (var range = ProfilerRange.of("loss");
                var scope = MemoryScope.open()) {
            Tensor flat = Autocast.operand(x).reshape(-1, x.size(-1)); // [N, D]
            return scope.escape(new LinearCrossEntropy(rows)
                    .apply(flat, weight, targets.reshape(-1).contiguous())[0]);
        }
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        Tensor x = inputs[0]; // [N, D]
        Tensor targets = inputs[2]; // [N]
        ScalarType wide = wide(x);
        Tensor weight = inputs[1].to(x.scalar_type()); // [V, D]
        Tensor dX = ctx.needsInputGrad(0) ? torch.empty_like(x) : null;
        Tensor dWeight = ctx.needsInputGrad(1) ? torch.zeros_like(inputs[1]).to(wide) : null;
        Tensor sum = torch.zeros(SCALAR, x.options()).to(ScalarType.Double); // there may be many chunks
        long tokens = x.size(0);
        for (long first = 0; first < tokens; first += rows) {
            long n = Math.min(rows, tokens - first);
            try (var chunk = MemoryScope.open()) {
                addChunk(
                        x.narrow(0, first, n),
                        weight,
                        targets.narrow(0, first, n),
                        sum,
                        dX == null ? null : dX.narrow(0, first, n),
                        dWeight);
            }
        }
        ctx.onceDifferentiable();
        ctx.put(new Gradients(tokens, dX != null, dWeight != null, inputs[1].scalar_type()));
        if (dX != null) {
            ctx.save(dX);
        }
        if (dWeight != null) {
            ctx.save(dWeight);
        }
        return new Tensor[] {sum.div(new Scalar((double) tokens)).to(wide)};
    }

    /** The gradients that are saved, before the division by the number of tokens. */
    private record Gradients(long tokens, boolean ofX, boolean ofWeight, ScalarType weightType) {}

    /**
     * Adds the loss of n rows to a sum, and their gradients.
     *
     * @param targets [n]
     * @param dX [n, D], overwritten; may be null
     * @param dWeight [V, D], added to; may be null
     */
    private static void addChunk(Tensor x, Tensor weight, Tensor targets, Tensor sum, Tensor dX, Tensor dWeight) {
        Tensor logits = x.matmul(weight.t());
        // A compiler records operators. It fuses those of the loss with its own rules.
        Optional<CrossEntropyKernel> kernel =
                OperatorInterceptor.isActive() ? Optional.empty() : CrossEntropyKernel.find(logits);
        Tensor gradient; // softmax(logits) − onehot(targets)
        if (kernel.isPresent()) {
            sum.add_(kernel.get().replaceByGradients(logits, targets).sum());
            gradient = logits;
        } else {
            Tensor p = torch.log_softmax(logits, 1, new ScalarTypeOptional(wide(x)));
            logits.close();
            Tensor columns = targets.unsqueeze(1); // [n, 1]
            Tensor ofTargets = p.gather(1, columns); // [n, 1]
            sum.sub_(ofTargets.sum());
            if (dX == null && dWeight == null) {
                return;
            }
            p.exp_();
            p.scatter_add_(1, columns, torch.full_like(ofTargets, MINUS_ONE));
            gradient = p.to(x.scalar_type());
            p.close();
        }
        if (dX != null) {
            torch.mm_out(dX, gradient, weight);
        }
        if (dWeight != null) {
            addProduct(dWeight, gradient.t(), x);
        }
    }

    /** Adds a·b to a sum. A GEMM of cuBLAS adds to an fp32 sum without a temporary tensor, also for 16-bit matrices. */
    private static void addProduct(Tensor sum, Tensor a, Tensor b) {
        if (sum.scalar_type().value == a.scalar_type().value) {
            sum.addmm_(a, b);
        } else if (sum.is_cuda()) {
            torch.addmm_out(sum, sum, a, b, sum.scalar_type(), ONE, ONE);
        } else {
            sum.add_(a.matmul(b)); // the CPU has no such operator; PyTorch casts the result
        }
    }

    private static ScalarType wide(Tensor x) {
        return DType.of(x) == DType.FLOAT64 ? ScalarType.Double : ScalarType.Float;
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
        Gradients saved = ctx.get(Gradients.class);
        // In fp32 or fp64. The output gradient contains the loss scale, without which 1 ÷ N could underflow in fp16.
        Tensor factor = gradOutputs[0].div(new Scalar((double) saved.tokens));
        Tensor dX = null;
        Tensor dWeight = null;
        if (saved.ofX) {
            dX = scaled(ctx.saved(0), factor, ctx.saved(0).scalar_type());
        }
        if (saved.ofWeight) {
            dWeight = scaled(ctx.saved(saved.ofX ? 1 : 0), factor, saved.weightType);
        }
        return new Tensor[] {dX, dWeight, null};
    }

    /**
     * Returns the gradient multiplied by a scalar, computed in fp32 or fp64. On a GPU no temporary tensor has that
     * type.
     */
    private static Tensor scaled(Tensor gradient, Tensor factor, ScalarType type) {
        Tensor vector = factor.unsqueeze(0); // a 0-dimensional factor would not take part in type promotion
        if (OperatorInterceptor.isActive()) { // a compiler has rules for these two operators
            return gradient.mul(vector).to(type);
        }
        Tensor product = torch.empty_like(gradient, new TensorOptions(type), new MemoryFormatOptional());
        return torch.mul_out(product, gradient, vector);
    }
}
