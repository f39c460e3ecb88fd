package cs336.compile;

import cs336.bench.ArgumentCheck;
import java.util.List;
import java.util.Locale;

/** An execution mode of a model in a measurement. */
enum CompileMode {
    /** Operator by operator, as written. */
    PLAIN,
    /** The same operators as one CUDA graph. */
    GRAPH,
    /** With generated kernels, but without FlashAttention in place of plain attention; on a GPU as one CUDA graph. */
    FUSED,
    /** The same, with the fastest tile of each generated kernel, found by timing on the GPU. */
    SEARCHED;

    /** @throws IllegalArgumentException if there is no such mode; the message lists the known names */
    static CompileMode parse(String name) {
        return ArgumentCheck.oneOf("--mode", name, List.of(values()));
    }

    boolean isFused() {
        return this == FUSED || this == SEARCHED;
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
