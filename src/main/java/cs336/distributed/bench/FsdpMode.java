package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import java.util.List;

/** A division of a model and its optimizer state among ranks; {@link FsdpBenchmark} compares the modes. */
public enum FsdpMode {
    /** Every rank holds parameters, gradients and optimizer state; bucketed all-reduces. */
    DDP("ddp"),
    /** Optimizer state is sharded (ZeRO stage 1). */
    ZERO_1("zero-1"),
    /** Parameters, gradients and optimizer state are sharded; the next unit is gathered while one computes. */
    FSDP("fsdp"),
    /** Like {@link #FSDP}, but each unit waits for its all-gather: one gathered unit at a time. */
    FSDP_WITHOUT_PREFETCH("fsdp-without-prefetch"),
    /** Like {@link #FSDP}, but sharded within each node and replicated across nodes (hybrid sharding). */
    HSDP("hsdp");

    private final String label;

    FsdpMode(String label) {
        this.label = label;
    }

    /**
     * Parses {@code ddp}, {@code zero-1}, {@code fsdp}, {@code fsdp-without-prefetch} or {@code hsdp}.
     *
     * @throws IllegalArgumentException if the label is none of these
     */
    public static FsdpMode parse(String label) {
        return ArgumentCheck.oneOf("mode", label, List.of(values()));
    }

    /** Returns whether gradients or parameters are exchanged in buckets of a chosen size. */
    public boolean hasBuckets() {
        return this == DDP || this == ZERO_1;
    }

    /** Returns the fraction of parameters, gradients and AdamW's moments that a rank stores. */
    double stateFraction(int ranks, int nodes) {
        return switch (this) {
            case DDP -> 1;
            case ZERO_1 -> ShardMode.ZERO_1.stateFraction(ranks);
            case FSDP, FSDP_WITHOUT_PREFETCH -> 1.0 / ranks;
            case HSDP -> (double) nodes / ranks;
        };
    }

    /** Returns the label, as in {@link #parse}. */
    @Override
    public String toString() {
        return label;
    }
}
