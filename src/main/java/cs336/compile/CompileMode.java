package cs336.compile;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/** An execution mode of a model in a measurement. */
enum CompileMode {
    /** Operator by operator, as written. */
    PLAIN,
    /** The same operators as one CUDA graph. */
    GRAPH,
    /** With generated kernels for the operations outside of attention; on a GPU as one CUDA graph. */
    FUSED,
    /** The same, with the fastest tile of each generated kernel, found by timing on the GPU. */
    SEARCHED;

    /** @throws IllegalArgumentException if there is no such mode; the message lists the known names */
    static CompileMode parse(String name) {
        for (CompileMode mode : values()) {
            if (mode.toString().equals(name)) {
                return mode;
            }
        }
        String known = Arrays.stream(values()).map(CompileMode::toString).collect(Collectors.joining(", "));
        throw new IllegalArgumentException("--mode '" + name + "' is unknown; known: " + known);
    }

    boolean isFused() {
        return this == FUSED || this == SEARCHED;
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
