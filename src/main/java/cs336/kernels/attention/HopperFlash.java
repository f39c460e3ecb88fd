package cs336.kernels.attention;

import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.DType;
import cs336.torch.Tensors;
import java.util.EnumSet;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/**
 * FlashAttention on the tensor cores (wgmma) and the tensor memory accelerator (TMA) of Hopper GPUs, sm_90a. Inputs are
 * bf16 or fp16 with d a multiple of 8, at most 128; a tensor whose layout TMA cannot access is copied first. O, L, dK
 * and dV are bitwise reproducible.
 *
 * <p>Sources: Dao, "FlashAttention-2", 2023; Shah et al., "FlashAttention-3", 2024, for the specialization of
 * warpgroups.
 *
 * @param deterministic whether dQ is bitwise reproducible too, which takes longer
 */
public record HopperFlash(boolean deterministic) implements FlashVariant {
    private static final Set<DType> HALVES = EnumSet.of(DType.BFLOAT16, DType.FLOAT16);
    private static final int COLUMNS_OF_16_BYTES = 8; // TMA's alignment

    /**
     * Returns whether this variant supports the device, dtype and head dimension of these queries.
     *
     * @param q queries [B, T, d] or [B, H, T, d]
     */
    public static boolean supports(Tensor q) {
        Tensors.requireDefined("q", q);
        return q.is_cuda() && Gpu.of(q).runsHopperKernels() && HALVES.contains(DType.of(q)) && fits(q.size(-1));
    }

    /** @throws IllegalArgumentException if the dtype, head dimension or device of an input is not supported */
    @Override
    public AttentionOutput forward(Tensor q, Tensor k, Tensor v, boolean causal) {
        requireSupported(q, k, v);
        return HopperFlashForward.run(q, k, v, causal);
    }

    /** @throws IllegalArgumentException if the dtype, head dimension or device of an input is not supported */
    @Override
    public AttentionGradients backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor l, Tensor dO, boolean causal) {
        requireSupported(q, k, v);
        TensorChecks.type("dO", dO, HALVES);
        return HopperFlashBackward.run(q, k, v, o, l, dO, causal, deterministic);
    }

    private static void requireSupported(Tensor q, Tensor k, Tensor v) {
        TensorChecks.type("q", q, HALVES);
        TensorChecks.type("k", k, HALVES);
        TensorChecks.type("v", v, HALVES);
        if (!q.is_cuda() || !Gpu.of(q).runsHopperKernels()) {
            try (var device = q.device()) {
                throw new IllegalArgumentException(
                        "q must be on a Hopper GPU, not " + device.str().getString());
            }
        }
        if (!fits(q.size(-1))) {
            throw new IllegalArgumentException("q must have a multiple of " + COLUMNS_OF_16_BYTES + " columns, at most "
                    + HeadWidths.WIDEST + ", not " + q.size(-1));
        }
        FlashAttention.requireInputs(q, k, v);
    }

    private static boolean fits(long d) {
        return d <= HeadWidths.WIDEST && d % COLUMNS_OF_16_BYTES == 0;
    }

    /** Returns the stride between sequences in elements: 0 for [heads, rows, d], which has one sequence. */
    static long batchStride(Tensor x) {
        return x.dim() > 3 ? x.stride(0) : 0;
    }
}
