package cs336.scaling;

/**
 * What is split along a mesh's axis of shards, in the order of the stages of ZeRO; each includes the ones before it.
 */
public enum ZeroStage {
    /** AdamW's moments: ZeRO stage 1. */
    OPTIMIZER_STATE("ZeRO-1"),
    /** Moments and gradients: ZeRO stage 2. */
    GRADIENTS("ZeRO-2"),
    /** Moments, gradients and weights: ZeRO stage 3, or FSDP. */
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
