package cs336.distributed.bench;

import cs336.bench.Case;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/** The way in which a rank runs the steps of a data-parallel training. */
enum StepExecution {
    /** Operator by operator; autograd starts the collectives. */
    EAGER,
    /** As a compiled step; the host starts the collectives between its CUDA graphs. */
    COMPILED,
    /** As a compiled step whose CUDA graph contains the collectives. */
    COMPILED_IN_GRAPH;

    /** Returns the names of all executions. */
    static List<String> names() {
        return Arrays.stream(values()).map(StepExecution::toString).toList();
    }

    /** Returns the execution of this name, which must be among {@link #names}. */
    static StepExecution parse(String name) {
        return Arrays.stream(values())
                .filter(execution -> execution.toString().equals(name))
                .findFirst()
                .orElseThrow();
    }

    /** Returns the execution of a case that {@link #mark} has returned. */
    static StepExecution of(Case c) {
        return Arrays.stream(values())
                .filter(execution -> execution != EAGER && c.implementation().endsWith("+" + execution))
                .findFirst()
                .orElse(EAGER);
    }

    /** Returns the case with this execution in the name of its implementation. */
    Case mark(Case c) {
        return this == EAGER ? c : c.withImplementation(c.implementation() + "+" + this);
    }

    /** Returns the name on the command line and in stored measurements. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
