package cs336.kernels.attention;

import cs336.kernels.runtime.TensorChecks;
import cs336.torch.Autocast;
import cs336.torch.AutogradFunction;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import org.bytedeco.pytorch.Tensor;

/**
 * Exact attention softmax(QKᵀ/√d)·V that stores no matrix of scores. The forward pass goes over the keys in tiles and
 * keeps a running softmax; for the backward pass it saves, beside inputs and output, one number a query: the
 * log-sum-exp L of its scores. The backward pass computes each tile of probabilities P = exp(S − L) again and, with D =
 * rowsum(dO ∘ O),
 *
 * <pre>
 * dV = Pᵀ dO     dP = dO Vᵀ     dS = P ∘ (dP − D)     dQ = dS K / √d     dK = dSᵀ Q / √d
 * </pre>
 *
 * <p>What is computed exactly, masks and rows without keys included, is said in {@link FlashVariant}.
 *
 * <p>Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.
 */
public final class FlashAttention extends AutogradFunction {
    private final FlashVariant form;
    private final boolean causal;

    private FlashAttention(FlashVariant form, boolean causal) {
        this.form = form;
        this.causal = causal;
    }

    /**
     * Attends, in the form that {@link FlashVariant#of} names for these tensors. Differentiable once. Under
     * {@link Autocast} the inputs are cast to its type.
     *
     * @param q queries [B, T, d], or [B, H, T, d] with heads, of any strides; fp16, bf16, fp32 or fp64
     * @param k keys [B, S, d] or [B, H, S, d], of the queries' type
     * @param v values, of the keys' shape and type
     * @param causal whether query i sees the keys 0 … i only
     * @return the shape and type of the queries, in the caller's memory scope
     * @throws IllegalArgumentException if shapes, types or devices do not fit
     */
    public static Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal) {
        return apply(q, k, v, causal, FlashVariant::of);
    }

    /** As {@link #apply(Tensor, Tensor, Tensor, boolean)}, in a form of the caller's choice. */
    public static Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal, FlashVariant form) {
        return apply(q, k, v, causal, queries -> form);
    }

    /** @param choice the form for the queries as they are after a cast */
    static Tensor apply(
            Tensor q, Tensor k, Tensor v, boolean causal, java.util.function.Function<Tensor, FlashVariant> choice) {
        TensorChecks.type("q", q, TensorChecks.FLOATING);
        TensorChecks.type("k", k, TensorChecks.FLOATING);
        TensorChecks.type("v", v, TensorChecks.FLOATING);
        try (var scope = MemoryScope.open()) {
            Tensor queries = Autocast.operand(q);
            Tensor keys = Autocast.operand(k);
            Tensor values = Autocast.operand(v);
            requireFit(queries, keys, values);
            FlashVariant form = choice.apply(queries);
            return scope.escape(new FlashAttention(form, causal).apply(queries, keys, values)[0]);
        }
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        FlashVariant.Attended attended = form.forward(inputs[0], inputs[1], inputs[2], causal);
        ctx.onceDifferentiable(); // a kernel is; and no form should do what another refuses
        ctx.save(inputs);
        ctx.save(attended.o(), attended.l());
        return new Tensor[] {attended.o()};
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
        FlashVariant.Gradients gradients = form.backward(
                ctx.saved(0), ctx.saved(1), ctx.saved(2), ctx.saved(3), ctx.saved(4), gradOutputs[0], causal);
        return new Tensor[] {gradients.dQ(), gradients.dK(), gradients.dV()};
    }

    private static void requireFit(Tensor q, Tensor k, Tensor v) {
        if (q.dim() != 3 && q.dim() != 4) {
            throw new IllegalArgumentException("q must be [B, T, d] or [B, H, T, d], not " + text(q));
        }
        long[] likeKeys = Tensors.shape(q);
        if (k.dim() == q.dim()) {
            likeKeys[likeKeys.length - 2] = k.size(-2);
        }
        if (q.numel() == 0 || k.numel() == 0) {
            throw new IllegalArgumentException("q and k must not be empty; they are " + text(q) + " and " + text(k));
        }
        if (!Arrays.equals(likeKeys, Tensors.shape(k))) {
            throw new IllegalArgumentException(
                    "k must be the shape of q but for its length; q is " + text(q) + ", k " + text(k));
        }
        if (!Arrays.equals(Tensors.shape(k), Tensors.shape(v))) {
            throw new IllegalArgumentException("v must be the shape of k; k is " + text(k) + ", v " + text(v));
        }
        DType dtype = DType.of(q);
        if (DType.of(k) != dtype || DType.of(v) != dtype) {
            throw new IllegalArgumentException(
                    "q, k and v must be of one type, not " + dtype + ", " + DType.of(k) + " and " + DType.of(v));
        }
        if (!TensorChecks.oneDevice(q, k) || !TensorChecks.oneDevice(q, v)) {
            throw new IllegalArgumentException("q, k and v must be on one device");
        }
    }

    private static String text(Tensor x) {
        return Arrays.toString(Tensors.shape(x));
    }
}
