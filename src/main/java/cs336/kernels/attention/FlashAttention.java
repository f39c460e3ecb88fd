package cs336.kernels.attention;

import cs336.basics.FusedAttention;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.Autocast;
import cs336.torch.AutogradFunction;
import cs336.torch.DType;
import cs336.torch.JavaOperator;
import cs336.torch.MemoryScope;
import cs336.torch.Tensors;
import java.util.Arrays;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;

/**
 * Exact attention softmax(QKᵀ/√d)·V that never stores the matrix of scores. The forward pass iterates over tiles of
 * keys with an online softmax. For the backward pass it saves the inputs, the output and one number per query: the
 * log-sum-exp L of its scores. The backward pass recomputes each tile of probabilities P = exp(S − L) and, with D =
 * rowsum(dO ∘ O), computes
 *
 * <pre>
 * dV = Pᵀ dO     dP = dO Vᵀ     dS = P ∘ (dP − D)     dQ = dS K / √d     dK = dSᵀ Q / √d
 * </pre>
 *
 * <p>{@link FlashVariant} defines the computation exactly, including masks and queries without keys.
 *
 * <p>Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.
 */
public final class FlashAttention extends AutogradFunction {
    private final FlashVariant variant;
    private final boolean causal;
    private Tensor logSumExp; // of the last forward pass, outside of every memory scope

    private FlashAttention(FlashVariant variant, boolean causal) {
        this.variant = variant;
        this.causal = causal;
    }

    /**
     * Computes attention with the variant that {@link FlashVariant#of} selects for these tensors. Differentiable once.
     * Under {@link Autocast} the inputs are cast to the autocast dtype.
     *
     * @param q queries [B, T, d], or [B, H, T, d] with heads, with any strides; fp16, bf16, fp32 or fp64
     * @param k keys [B, S, d] or [B, H, S, d], of the queries' dtype
     * @param v values, of the keys' shape and dtype
     * @param causal whether query i attends to keys 0 … i only
     * @return output with the shape and dtype of the queries, in the caller's memory scope
     * @throws IllegalArgumentException if a dtype is not supported, an input is empty, or shapes, dtypes or devices do
     *     not match
     */
    public static Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal) {
        return apply(q, k, v, causal, FlashVariant::of);
    }

    /**
     * Computes {@link #apply(Tensor, Tensor, Tensor, boolean)} and returns the log-sum-exp of the scores, too. As in
     * PyTorch, only the output is differentiable.
     */
    public static FlashVariant.AttentionOutput applyWithLogSumExp(Tensor q, Tensor k, Tensor v, boolean causal) {
        return both(q, k, v, causal, FlashVariant::of);
    }

    /** Computes {@link #apply(Tensor, Tensor, Tensor, boolean)} with a given variant. */
    public static Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal, FlashVariant variant) {
        Objects.requireNonNull(variant, "variant must not be null");
        return apply(q, k, v, causal, queries -> variant);
    }

    /** @param choice selects the variant for the queries after autocast */
    static Tensor apply(Tensor q, Tensor k, Tensor v, boolean causal, Function<Tensor, FlashVariant> choice) {
        try (var scope = MemoryScope.open()) {
            return scope.escape(both(q, k, v, causal, choice).o());
        }
    }

    private static FlashVariant.AttentionOutput both(
            Tensor q, Tensor k, Tensor v, boolean causal, Function<Tensor, FlashVariant> choice) {
        TensorChecks.type("q", q, TensorChecks.FLOATING);
        TensorChecks.type("k", k, TensorChecks.FLOATING);
        TensorChecks.type("v", v, TensorChecks.FLOATING);
        try (var scope = MemoryScope.open()) {
            Tensor queries = Autocast.operand(q);
            Tensor keys = Autocast.operand(k);
            Tensor values = Autocast.operand(v);
            requireInputs(queries, keys, values);
            FlashVariant variant = choice.apply(queries);
            var attention = new FlashAttention(variant, causal);
            Tensor o = scope.escape(attention.apply(queries, keys, values)[0]);
            try (Tensor l = attention.logSumExp) {
                return new FlashVariant.AttentionOutput(o, scope.escape(new Tensor(l)));
            }
        }
    }

    @Override
    protected Tensor[] forward(Context ctx, Tensor... inputs) {
        Tensor[] output = new FlashForward(variant, causal).call(inputs);
        ctx.onceDifferentiable(); // kernels have no derivative; tensor operations refuse one for consistency
        ctx.save(inputs);
        ctx.save(output);
        logSumExp = MemoryScope.keep(new Tensor(output[1]));
        return new Tensor[] {output[0]};
    }

    @Override
    protected Tensor[] backward(Context ctx, Tensor... gradOutputs) {
        return new FlashBackward(variant, causal)
                .call(ctx.saved(0), ctx.saved(1), ctx.saved(2), ctx.saved(3), ctx.saved(4), gradOutputs[0]);
    }

    /** The forward pass: q, k, v → o, l. */
    private record FlashForward(FlashVariant variant, boolean causal) implements JavaOperator {
        @Override
        public String name() {
            return "flash_attention";
        }

        @Override
        public Tensor[] compute(Tensor... in) {
            FlashVariant.AttentionOutput output = variant.forward(in[0], in[1], in[2], causal);
            return new Tensor[] {output.o(), output.l()};
        }
    }

    /** The backward pass: q, k, v, o, l, dO → dQ, dK, dV. */
    private record FlashBackward(FlashVariant variant, boolean causal) implements JavaOperator {
        @Override
        public String name() {
            return "flash_attention_backward";
        }

        @Override
        public Tensor[] compute(Tensor... in) {
            FlashVariant.AttentionGradients gradients =
                    variant.backward(in[0], in[1], in[2], in[3], in[4], in[5], causal);
            return new Tensor[] {gradients.dQ(), gradients.dK(), gradients.dV()};
        }
    }

    /** Registers both passes as the service {@link FusedAttention}. */
    public static final class FlashOperators implements FusedAttention {
        @Override
        public Optional<FusedAttentionPasses> passes(Tensor q, boolean causal) {
            Tensors.requireDefined("q", q);
            if ((q.dim() != 3 && q.dim() != 4) || q.numel() == 0 || !TensorChecks.FLOATING.contains(DType.of(q))) {
                return Optional.empty();
            }
            boolean deterministic = true;
            FlashVariant variant = FlashVariant.of(q, deterministic);
            // On a GPU the tensor operations of TiledFlash are slower than plain attention.
            return q.is_cuda() && variant instanceof TiledFlash
                    ? Optional.empty()
                    : Optional.of(new FusedAttentionPasses(
                            new FlashForward(variant, causal), new FlashBackward(variant, causal)));
        }
    }

    /**
     * Checks the inputs of attention.
     *
     * @throws IllegalArgumentException if one is null, closed or undefined, or their shapes, dtypes or devices do not
     *     match
     */
    static void requireInputs(Tensor q, Tensor k, Tensor v) {
        Tensors.requireDefined("q", q);
        Tensors.requireDefined("k", k);
        Tensors.requireDefined("v", v);
        if (q.dim() != 3 && q.dim() != 4) {
            throw new IllegalArgumentException("q must be [B, T, d] or [B, H, T, d], not " + text(q));
        }
        long[] keyShape = Tensors.shape(q);
        if (k.dim() == q.dim()) {
            keyShape[keyShape.length - 2] = k.size(-2);
        }
        if (q.numel() == 0 || k.numel() == 0) {
            throw new IllegalArgumentException(
                    "q and k must not be empty; their shapes are " + text(q) + " and " + text(k));
        }
        if (!Arrays.equals(keyShape, Tensors.shape(k))) {
            throw new IllegalArgumentException(
                    "k must have the shape of q except for T; q is " + text(q) + ", k is " + text(k));
        }
        if (!Arrays.equals(Tensors.shape(k), Tensors.shape(v))) {
            throw new IllegalArgumentException("v must have the shape of k; k is " + text(k) + ", v is " + text(v));
        }
        DType dtype = DType.of(q);
        if (DType.of(k) != dtype || DType.of(v) != dtype) {
            throw new IllegalArgumentException(
                    "q, k and v must have the same dtype, not " + dtype + ", " + DType.of(k) + " and " + DType.of(v));
        }
        if (!TensorChecks.oneDevice(q, k) || !TensorChecks.oneDevice(q, v)) {
            throw new IllegalArgumentException("q, k and v must be on the same device, not "
                    + q.device().str().getString() + ", " + k.device().str().getString() + " and "
                    + v.device().str().getString());
        }
    }

    private static String text(Tensor x) {
        return Arrays.toString(Tensors.shape(x));
    }
}
