package cs336.distributed.collectives;

import cs336.bench.ArgumentCheck;
import java.util.List;
import java.util.Locale;

/** The libraries that carry collectives. */
public enum CollectiveBackend {
    /** Facebook's, over TCP; tensors on the CPU, or on a card by way of the CPU. Any number of ranks. */
    GLOO,
    /** NVIDIA's, from card to card; one card for each rank. */
    NCCL;

    /**
     * Reads {@code gloo} or {@code nccl}.
     *
     * @throws IllegalArgumentException if it is neither
     */
    public static CollectiveBackend parse(String name) {
        return ArgumentCheck.oneOf("backend", name, List.of(values()));
    }

    /** As on the command line: {@code gloo}, {@code nccl}. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
