package cs336.kernels.attention;

import static cs336.units.UnitFactors.GB;

import cs336.basics.Attention;
import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.scaling.memory.AttentionMemory;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryStats;

/**
 * One case of the attention benchmarks: an implementation with the shape and dtype of its inputs.
 *
 * @param attention name of the implementation
 * @param batch sequences per batch
 * @param heads heads per sequence; null for inputs [B, T, d] without a head dimension
 * @param d head dimension: columns of queries, keys and values
 * @param context tokens per sequence
 * @param dtype short name of the inputs' dtype, such as {@code bf16}
 * @param causal whether query i attends to keys 0 … i only
 */
record AttentionCase(String attention, int batch, Integer heads, int d, int context, String dtype, boolean causal) {
    /** The largest number of elements of a tensor; sums of bytes of several such tensors are below 2⁶³. */
    private static final double MAX_ELEMENTS = 0x1p56;

    /** @throws IllegalArgumentException if the implementation is unknown, or a size is below 1 or too large */
    AttentionCase {
        Attention.named(attention);
        ArgumentCheck.atLeast("--batch", 1, batch);
        if (heads != null) {
            ArgumentCheck.atLeast("--heads", 1, heads);
        }
        ArgumentCheck.atLeast("--d", 1, d);
        ArgumentCheck.atLeast("--context", 1, context);
        long sequences = (long) batch * (heads == null ? 1 : heads);
        ArgumentCheck.atLeast("--batch × --heads", 1, sequences);
        double elements = (double) sequences * context * Math.max(context, d);
        if (elements > MAX_ELEMENTS) {
            throw new IllegalArgumentException("%d sequences or heads with --context %d and --d %d are too large"
                    .formatted(sequences, context, d));
        }
    }

    /** Reads back the parameters that {@link #addTo} wrote. */
    static AttentionCase of(Case c) {
        return new AttentionCase(
                c.implementation(),
                c.integer("batch"),
                c.parameters().containsKey("heads") ? c.integer("heads") : null,
                c.integer("d"),
                c.integer("context"),
                c.text("dtype"),
                Boolean.parseBoolean(c.text("causal")));
    }

    /** Adds shape, dtype and mask to the parameters of a case. */
    Case addTo(Case c) {
        Case sequences = c.with("batch", batch);
        return (heads == null ? sequences : sequences.with("heads", heads))
                .with("d", d)
                .with("context", context)
                .with("dtype", dtype)
                .with("causal", causal);
    }

    /** Returns the shape of inputs with this many tokens: [B, T, d], or [B, H, T, d] with heads. */
    long[] shape(int tokens) {
        return heads == null ? new long[] {batch, tokens, d} : new long[] {batch, heads, tokens, d};
    }

    /**
     * On the CPU, checks that plain attention fits into memory. Without the check Linux could kill the process.
     *
     * @throws OutOfMemoryError if it does not fit
     */
    void requireFits(Device device) {
        if (device.isCuda() || !attention.equals("plain")) {
            return;
        }
        int sequences = heads == null ? batch : Math.multiplyExact(batch, heads);
        long needed = new AttentionMemory(sequences, context, d, DType.parse(dtype), causal, device.kind()).peakBytes();
        long available = MemoryStats.available(device);
        if (needed > available) {
            throw new OutOfMemoryError("%.1f GB needed, %.1f GB available".formatted(needed / GB, available / GB));
        }
    }
}
