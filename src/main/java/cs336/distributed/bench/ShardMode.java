package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import java.util.List;

/**
 * The distribution of gradients, optimizer state and parameters over the ranks; {@link ShardBenchmark} compares the
 * modes.
 */
public enum ShardMode {
    /** Gradients are all-reduced; every rank holds the whole optimizer state and updates all parameters. */
    UNSHARDED("unsharded"),
    /** Gradients are all-reduced; each rank updates its own parameters and broadcasts each of them. */
    BROADCAST("broadcast"),
    /** Gradients are all-reduced; each rank updates its shard, all-gathered during the next forward pass. */
    ALL_GATHER("all-gather"),
    /** Like {@link #ALL_GATHER}, but gradients are reduce-scattered (ZeRO stage 1). */
    ZERO_1("zero-1"),
    /**
     * Like {@link #ALL_GATHER} without the all-gather: the weights become wrong, and the step time is a lower bound.
     */
    UNSYNCHRONIZED("unsynchronized");

    private final String label;

    ShardMode(String label) {
        this.label = label;
    }

    /**
     * Parses {@code unsharded}, {@code broadcast}, {@code all-gather}, {@code zero-1} or {@code unsynchronized}.
     *
     * @throws IllegalArgumentException if the label is none of these
     */
    public static ShardMode parse(String label) {
        return ArgumentCheck.oneOf("mode", label, List.of(values()));
    }

    /** Returns whether each rank holds only a shard of the optimizer state. */
    public boolean isSharded() {
        return this != UNSHARDED;
    }

    /** Returns the fraction of parameters, gradients and AdamW's moments that a rank stores. */
    double stateFraction(int ranks) {
        return isSharded() ? (1 + 1.0 / ranks) / 2 : 1; // the moments are half of it
    }

    /** Returns the label, as in {@link #parse}. */
    @Override
    public String toString() {
        return label;
    }
}
