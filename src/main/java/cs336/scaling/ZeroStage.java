package cs336.scaling;

/**
 * A stage of ZeRO: the tensors that are sharded along the axis {@link Mesh#shards}. Each stage includes those before
 * it.
 */
public enum ZeroStage {
    /** ZeRO stage 1: AdamW's moments. */
    OPTIMIZER_STATE("ZeRO-1"),
    /** ZeRO stage 2: moments and gradients. */
    GRADIENTS("ZeRO-2"),
    /** ZeRO stage 3, or FSDP: moments, gradients and weights. */
    PARAMETERS("FSDP");

    private final String label;

    ZeroStage(String label) {
        this.label = label;
    }

    boolean splitsGradients() {
        return compareTo(GRADIENTS) >= 0;
    }

    boolean splitsWeights() {
        return this == PARAMETERS;
    }

    @Override
    public String toString() {
        return label;
    }
}
